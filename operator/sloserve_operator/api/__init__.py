"""The SLOServe resource: pydantic models, their structural schema and CEL rules, conditions. No I/O.

`spec` and `status` are the models, `rules` the CEL helper, `schema` the converter, `crd` the document
that is committed as crds/sloserves.sloserve.dev.yaml, `reference` its page in docs/reference.
"""

GROUP = "sloserve.dev"
VERSION = "v1alpha1"
KIND = "SLOServe"
PLURAL = "sloserves"
API_VERSION = f"{GROUP}/{VERSION}"
CRD = f"{PLURAL}.{GROUP}"
SCHEMA_VERSION = 2
"""Grows by one in a release that changes the CRD's schema: CRD and operator of different ones say so. The
release before this had none on its CRD, which counts as 1."""
SCHEMA_ANNOTATION = f"{GROUP}/schema-version"
