"""The SLOServe operator: one resource in, engine pods under a promised latency out.

The chain, each link in a module of its own: `handlers` (kopf's watch events) -> `cache` and `queue`
-> `reconcile` (one level-triggered pass per resource) -> `desired` -> `children` (writes through `kube`, on
`connection`) -> `observe` -> `status`. `api` holds the resource itself, `kinds` all kinds in one table,
`watches` the way from nothing to watching and back, `app` the process around it all.
"""

__version__ = "0.1.0"
