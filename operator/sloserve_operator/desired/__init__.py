"""Pure: (resource, context) -> the Kubernetes objects that should exist. Called by `reconcile`.

Same input, same output, byte for byte; no clock, no I/O. `workload` lists the children; `names` (labels,
owner), `config` (live settings), `pod` with `command`, `storage` and `merge` (what runs on a GPU node),
`restart` (when it is replaced), `policies` (who may evict and reach it); `drift` with `quantities`: does the
live one differ.
"""

from .workload import Context, build

__all__ = ["Context", "build"]
