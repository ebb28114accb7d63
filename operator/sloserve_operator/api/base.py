"""Base of all models of the resource: camelCase outside, snake_case inside."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """Base of every part: camelCase outside, unknown keys ignored (a newer CRD may know more)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)
