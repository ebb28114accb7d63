"""Does the CRD in the cluster belong to this operator? Run by `app`, beside the work; it stops nothing.

The chart brings both, but one can move without the other: `crds.enabled=false`, a second release, `kubectl`.
With an older CRD the API server drops fields that only this operator knows; with a newer one it takes fields
that this operator does not act on. Neither shows in a resource, so it is said here: a log line for each
change, the metric `sloserve_schema_skew`, and a line in /livez and /readyz.
"""

import asyncio

import structlog

from .api import CRD, SCHEMA_ANNOTATION, SCHEMA_VERSION
from .api.resource import Object
from .kube import Kube, KubeError
from .telemetry import Telemetry

UNMARKED = 1  # what a CRD without the annotation counts as
log = structlog.stdlib.get_logger("sloserve.schema")


def version_of(crd: Object) -> int:
    """Schema version of a CRD by its annotation; 0 for one that is no number above 0."""
    text = (crd["metadata"].get("annotations") or {}).get(SCHEMA_ANNOTATION, str(UNMARKED))
    return int(text) if text.isascii() and text.isdigit() else 0


def compare(version: int, own: int = SCHEMA_VERSION) -> str:
    """What to know and to do about a CRD of that version; empty if it is the operator's own."""
    if version == own:
        return ""
    said = f"the CRD {CRD} has schema version {version}, this operator has {own}"
    if version == 0:
        return f"the CRD {CRD} has no number in {SCHEMA_ANNOTATION}: apply the chart's CRD"
    if version < own:
        return (
            f"{said}: the API server drops fields that the older CRD does not know. Upgrade the CRD: helm"
            " upgrade with crds.enabled=true, or kubectl apply --server-side -f crds/"
        )
    return f"{said}: fields that only the newer CRD knows are stored and not acted on. Upgrade the operator"


class Skew:
    """Compares now and then. `verdict` is a sentence if the two differ or cannot be compared, else empty."""

    def __init__(self, kube: Kube, telemetry: Telemetry) -> None:
        self._kube, self._telemetry = kube, telemetry
        self.verdict = ""

    async def follow(self, connected: asyncio.Event, seconds: float) -> None:
        """Compare once connected, then every `seconds`."""
        await connected.wait()
        while True:
            await self.check()
            await asyncio.sleep(seconds)

    async def check(self) -> None:
        """Compare once; an API server that does not answer changes nothing."""
        try:
            crd = await self._kube.get("CustomResourceDefinition", "", CRD)
        except KubeError as error:
            if error.status == 403:
                text = (
                    f"whether the CRD {CRD} has this operator's schema version {SCHEMA_VERSION} is not known:"
                    " its account may not read CRDs, as with watchNamespaces or rbac.create=false"
                )
                self._say(text, 0, "not compared")
            return
        if crd is None:
            return  # the watches say so
        version = version_of(crd)
        skew = version - SCHEMA_VERSION
        self._say(
            compare(version), skew, "CRD older than operator" if skew < 0 else "CRD newer than operator"
        )

    def _say(self, verdict: str, skew: int, event: str) -> None:
        self._telemetry.schema_skew.set(skew)
        if verdict == self.verdict:
            return
        self.verdict = verdict
        if not verdict:
            log.info("CRD and operator have one schema version", version=SCHEMA_VERSION)
        elif skew:
            log.warning(event, remedy=verdict)
        else:
            log.info(event, why=verdict)
