"""Settings of the process, from the environment (prefix SLOSERVE_) or the command line. Read by `app`."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from . import __version__


class Settings(BaseSettings):
    """One field per setting; `sloserve-operator --help` prints them."""

    model_config = SettingsConfigDict(
        env_prefix="SLOSERVE_",
        cli_prog_name="sloserve-operator",
        cli_kebab_case=True,
        frozen=True,
    )

    namespaces: str = Field(
        default="", description="Namespaces to serve, separated by commas; empty: the whole cluster."
    )
    kubeconfig: Path | None = Field(
        default=None,
        description="Kubeconfig for a run outside the cluster; empty: the pod's service account.",
    )
    engine_image: str = Field(
        default=f"slidingserve/engine:{__version__}", description="Image of engines with accelerators."
    )
    engine_image_cpu: str = Field(
        default=f"slidingserve/engine-cpu:{__version__}",
        description="Image of engines with accelerator: cpu.",
    )
    run_as: Literal["fixed", "cluster"] = Field(
        default="fixed",
        description="As which user engines run that do not say (spec.engine.runAs): fixed, which is 1000, or "
        "cluster, which leaves user and group to the cluster.",
    )
    log_format: Literal["json", "text"] = Field(default="json", description="Form of a log line.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level logged."
    )
    metrics_port: int = Field(default=9090, description="Port of /metrics; 0 for none.", ge=0, le=65535)
    health_port: int = Field(
        default=8080, description="Port of /livez and /readyz; 0 for none.", ge=0, le=65535
    )
    operator_namespace: str = Field(
        default="",
        description="Namespace of the operator's own pods, which NetworkPolicies of engines let in; empty: "
        "pods with the chart's labels in any namespace.",
    )
    operator_labels: str = Field(
        default="",
        description="Labels of the operator's own pods, as key=value separated by commas; empty: those that "
        "every release of the chart has.",
        pattern=r"^([^=,]+=[^=,]*(,[^=,]+=[^=,]*)*)?$",
    )
    workers: int = Field(
        default=16,
        description="Looks at resources at the same time; most of a look is waiting for engines.",
        ge=1,
        le=64,
    )
    poll_seconds: float = Field(
        default=15, description="Time between two looks at a settled resource's engines.", ge=1
    )
    resync_seconds: float = Field(
        default=60, description="Time between two LISTs that check the watches.", ge=1
    )
    call_timeout_seconds: float = Field(default=10, description="Deadline of a call to the API server.", gt=0)
    engine_timeout_seconds: float = Field(
        default=2, description="Deadline of reading an engine's state.", gt=0
    )
    watch_seconds: int = Field(
        default=300, description="Time after which the API server ends a watch and it is begun anew.", ge=1
    )
    watch_silence_seconds: float = Field(
        default=70,
        description="Time without an event or a bookmark (one a minute) after which a watch is begun anew.",
        ge=1,
    )

    leader_election: bool = Field(
        default=False,
        description="Write only while holding a Lease: of several replicas one writes.",
    )
    lease_name: str = Field(default="sloserve-operator", description="Name of the Lease.", min_length=1)
    lease_namespace: str = Field(default="", description="Namespace of the Lease; empty: the pod's own.")
    lease_seconds: int = Field(
        default=15,
        description="Time without a sign of the leader after which a standby takes over; a leader that "
        "cannot renew stops writing after two thirds of it. The same for all replicas.",
        ge=3,
        le=3600,
    )

    @field_validator("namespaces")
    @classmethod
    def _names_some(cls, text: str) -> str:
        """A slip, such as an empty variable in a list, must not become the whole cluster."""
        if text and not text.replace(",", " ").split():
            raise ValueError("it names no namespace: name some, or leave it empty for the whole cluster")
        return text

    def watched(self) -> list[str]:
        """Namespaces as a list; empty for the whole cluster."""
        return [name.strip() for name in self.namespaces.split(",") if name.strip()]
