"""What the pods of a Deployment ask of the cluster, for sentences that name it. Pure; read by the reasons."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .desired.pod import CONTAINER

TEMPLATE = "ResourceClaimTemplate "
KUBERNETES_OWN = ("cpu", "memory", "ephemeral-storage", "hugepages-", "pods")


@dataclass(frozen=True)
class Asked:
    """Of one pod. `accelerators`: count by resource name; `device_claims`: by name in the pod, the object
    that has the devices; `claims`: of volumes. `startup_seconds`: how long the startup probe waits; 0 where
    it is not known."""

    accelerators: Mapping[str, str] = field(default_factory=dict)
    device_claims: Mapping[str, str] = field(default_factory=dict)
    memory_limit: str = ""
    claims: tuple[str, ...] = ()
    startup_seconds: int = 0
    grace_seconds: int = 0
    token_secret: str = ""


def asked(deployment: Mapping[str, Any] | None) -> Asked:
    """Read from the pod template."""
    spec = ((((deployment or {}).get("spec") or {}).get("template") or {}).get("spec")) or {}
    main: Mapping[str, Any] = next(
        (c for c in spec.get("containers") or [] if c.get("name") == CONTAINER), {}
    )
    limits = (main.get("resources") or {}).get("limits") or {}
    probe = main.get("startupProbe") or {}
    volumes = spec.get("volumes") or []
    claims = [v["persistentVolumeClaim"]["claimName"] for v in volumes if v.get("persistentVolumeClaim")]
    return Asked(
        accelerators={k: str(v) for k, v in limits.items() if not k.startswith(KUBERNETES_OWN)},
        device_claims={claim.get("name", ""): _source(claim) for claim in spec.get("resourceClaims") or []},
        memory_limit=str(limits.get("memory", "")),
        claims=tuple(dict.fromkeys(claims)),
        startup_seconds=probe.get("failureThreshold", 0) * probe.get("periodSeconds", 0),
        grace_seconds=spec.get("terminationGracePeriodSeconds", 0),
        token_secret=_token_secret(main),
    )


def _source(claim: Mapping[str, Any]) -> str:
    if template := claim.get("resourceClaimTemplateName"):
        return f"{TEMPLATE}{template}"
    return f"ResourceClaim {claim.get('resourceClaimName', '')}"


def _token_secret(container: Mapping[str, Any]) -> str:
    for variable in container.get("env") or []:
        if variable.get("name") == "HF_TOKEN":
            source = (variable.get("valueFrom") or {}).get("secretKeyRef") or {}
            return str(source.get("name", ""))
    return ""
