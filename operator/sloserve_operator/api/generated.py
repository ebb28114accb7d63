"""What `make generate` writes from this package: the CRD, the chart's copy of it, the reference page."""

from . import CRD, crd, reason_docs, reference


def generated_files() -> dict[str, str]:
    """Path in the repository -> whole text."""
    name = f"{CRD}.yaml"
    return {
        f"crds/{name}": crd.text(),
        f"charts/sloserve/files/crds/{name}": crd.text(),
        "docs/reference/sloserve.md": reference.text(),
        "docs/reference/conditions.md": reason_docs.text(),
    }
