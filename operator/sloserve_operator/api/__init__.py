"""The SLOServe resource: pydantic models, their structural schema and CEL rules, conditions. No I/O.

`spec` and `status` are the models, `rules` the CEL helper, `schema` the converter, `crd` the document
that is committed as crds/sloserves.sloserve.dev.yaml, `reference` its page in docs/reference.
"""

GROUP = "sloserve.dev"
VERSION = "v1alpha1"
KIND = "SLOServe"
PLURAL = "sloserves"
API_VERSION = f"{GROUP}/{VERSION}"
