"""What requests come and when: the paper's workloads, public traces, and the user's own files.

First stage of every experiment: a `Trace` goes from here to the simulator and, over HTTP, to the bench, so
that both see the same arrivals and lengths. `catalogue` makes the named ones, `files` reads the user's,
`arrivals` lays them on a time axis, `slo` turns classes into promises.
"""

from slidingserve.workloads.catalogue import get, names
from slidingserve.workloads.files import load
from slidingserve.workloads.rows import Reading, Report
from slidingserve.workloads.trace import Trace, WorkloadError

__all__ = ["Reading", "Report", "Trace", "WorkloadError", "get", "load", "names"]
