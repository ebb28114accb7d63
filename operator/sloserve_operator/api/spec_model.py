"""`spec.model`, adapters and secrets: what is served. Cold: a change restarts the pods."""

from typing import Literal

from pydantic import Field

from .base import Model
from .rules import REQUIRED_BY_RULE, cel, extra

PART = "[A-Za-z0-9][A-Za-z0-9._-]*"


def _uri(field: str) -> dict[str, str]:
    """Rule for the three places that weights can come from."""
    return cel(
        f"!self.contains('..') && (self.matches('^hf://{PART}/{PART}$')"
        " || self.matches('^pvc://[a-z0-9][-a-z0-9.]*(/[A-Za-z0-9._-]+)*$')"
        " || self.matches('^file://(/[A-Za-z0-9._-]+)+$'))",
        f"{field} must be hf://organisation/name, pvc://claim/path or file:///absolute/path, without ..",
    )


class SecretKey(Model):
    """A key of a Secret in the resource's own namespace."""

    name: str = Field(description="Name of the Secret.", min_length=1, max_length=253)
    key: str = Field(default="token", description="Key within the Secret.", min_length=1, max_length=253)


class ApiKey(SecretKey):
    """Where the key is that clients must send."""

    key: str = Field(default="api-key", description="Key within the Secret.", min_length=1, max_length=253)


class ModelSource(Model):
    """Which model is served, and under which name clients ask for it."""

    uri: str = Field(
        description="Where the weights are: hf://organisation/name, pvc://claim/path or file:///path/in/image.",
        max_length=512,
        json_schema_extra=extra(_uri("model.uri"), **{REQUIRED_BY_RULE: True}),
    )
    name: str | None = Field(
        default=None,
        description="Name that clients send; by default what follows hf://, or the last part of the path.",
        min_length=1,
        max_length=253,
    )
    revision: str | None = Field(
        default=None, description="Branch, tag or commit of an hf:// model.", min_length=1, max_length=128
    )
    token_secret_ref: SecretKey | None = Field(
        default=None,
        description="Secret with the hub's token for gated models; reaches the engine as HF_TOKEN.",
    )
    dtype: Literal["auto", "half", "float16", "bfloat16", "float", "float32"] | None = Field(
        default=None, description="Type of the weights and activations; by default what the model says."
    )
    quantization: str | None = Field(
        default=None,
        description="Quantisation by vLLM's name, for example fp8 or awq; by default what the model says.",
        pattern="^[a-z0-9][a-z0-9_-]*$",
        max_length=64,
    )


class LoraAdapter(Model):
    """A LoRA adapter that clients ask for by its name, like a model."""

    name: str = Field(description="Name that clients send.", pattern=f"^{PART}$", max_length=128)
    uri: str = Field(
        description="Where the adapter is: hf://organisation/name, pvc://claim/path or file:///path/in/image.",
        max_length=512,
        json_schema_extra=extra(_uri("engine.loraAdapters[].uri")),
    )
