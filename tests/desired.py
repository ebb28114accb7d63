"""Golden children: tests/data/desired/input -> output, and every version's pod templates. `make generate`.

An output may change with a reason. A pod template of a version may not: engines that run it would restart on
an operator upgrade, so a changed one is refused here, by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from sloserve_operator.api.resource import SLOServe
from sloserve_operator.desired import Context, build, pod

ROOT = Path(__file__).resolve().parent.parent
DATA = Path("tests/data/desired")
UID = "11111111-1111-1111-1111-111111111111"
IMAGES = ("engine:1.0", "engine-cpu:1.0")


class Plain(yaml.SafeDumper):
    """YAML without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class ChangedTemplateError(ValueError):
    """A pod template of a released version is not what it was."""


def dump(documents: list[Any]) -> str:
    """Documents as one file."""
    return yaml.dump_all(documents, Dumper=Plain, sort_keys=False, width=110)


def inputs() -> dict[str, SLOServe]:
    """Name of each input and its resource."""
    found = {}
    for path in sorted((ROOT / DATA / "input").glob("*.yaml")):
        obj = yaml.safe_load(path.read_text())
        obj["metadata"] |= {"namespace": "models", "uid": UID, "generation": 7}
        found[path.name] = SLOServe.parse(obj)
    return found


def templates() -> dict[str, str]:
    """Path and text of the pod template of every input in every version."""
    return {
        f"{DATA}/templates/v{version}/{name}": dump([pod.template(resource, "engine:pinned", version)])
        for name, resource in inputs().items()
        for version in pod.VERSIONS
    }


def generated_files() -> dict[str, str]:
    """Path in the repository -> whole text.

    Raises:
        ChangedTemplateError: if engines that run would restart.
    """
    found = templates()
    for name, text in found.items():
        path = ROOT / name
        if path.exists() and path.read_text() != text:
            raise ChangedTemplateError(
                f"{name}: running engines would restart; add a version to desired/pod.py, or delete the"
                " file if no release has made it"
            )
    outputs = {
        f"{DATA}/output/{name}": dump(build(resource, Context(*IMAGES)))
        for name, resource in inputs().items()
    }
    return {**outputs, **found}
