"""Pure: (resource, context) -> the Kubernetes objects that should exist. Called by `reconcile`.

Same input, same output, byte for byte; no clock, no I/O. `names` (labels, owner), `config` (live settings),
`pod` (what runs on a GPU node), `workload` (the four children), `drift` (does the live one differ).
"""

from .workload import Context, build

__all__ = ["Context", "build"]
