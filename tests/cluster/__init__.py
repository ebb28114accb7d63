"""One node of real Kubernetes for the tests and the demo, and one `Cluster` interface over three kinds of it.

`api.get()` chooses the kind (local, kind, current); `python -m tests.cluster` is the same by hand. The local
kind, from the bottom up: `tools` builds the binaries, `node` makes a machine out of Linux namespaces,
`config` says how each component runs in it, `oci` writes and thins images, `local` puts them in order.
"""
