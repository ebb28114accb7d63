"""One SLOServe as the operator reads it: identity and parsed spec. Made in `reconcile`, read by all after."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from . import API_VERSION, KIND
from .spec import SLOServeSpec

Object = dict[str, Any]


class InvalidSpecError(ValueError):
    """The stored spec does not fit the model (an older or newer CRD let it in); the text names the fields."""


@dataclass(frozen=True)
class SLOServe:
    """Identity, parsed spec and last written status of one resource."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: SLOServeSpec
    status: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, obj: Mapping[str, Any]) -> "SLOServe":
        """From the object as the API server gives it.

        Raises:
            InvalidSpecError: with one sentence that lists the fields at fault.
        """
        meta = obj["metadata"]
        try:
            spec = SLOServeSpec.model_validate(obj.get("spec") or {})
        except ValidationError as error:
            faults = "; ".join(f"spec.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise InvalidSpecError(f"{faults}. Correct the fields and apply again") from None
        return cls(
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            generation=meta.get("generation", 1),
            spec=spec,
            status=obj.get("status") or {},
        )

    @property
    def key(self) -> tuple[str, str]:
        """(namespace, name): what the queue and the cache go by."""
        return (self.namespace, self.name)

    def reference(self) -> Object:
        """`ownerReferences` entry that makes this resource the controller of a child."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def controller_of(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The controlling ownerReference of an object, if any."""
    for reference in obj.get("metadata", {}).get("ownerReferences") or []:
        if reference.get("controller"):
            return dict(reference)
    return None
