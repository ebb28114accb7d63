"""The converter from pydantic to a structural schema, and what it refuses."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from sloserve_operator.api.crd import document, text
from sloserve_operator.api.generated import generated_files
from sloserve_operator.api.schema import NotStructuralError, structural

STRUCTURAL = {
    "type", "description", "default", "enum", "format", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
    "properties", "required", "items", "additionalProperties", "x-kubernetes-validations",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
}  # fmt: skip


class Inner(BaseModel):
    """Inner part."""

    word: Literal["a"] = "a"


class Outer(BaseModel):
    """Outer part."""

    maybe: int | None = None
    positive: float = Field(gt=0, le=3, default=1)
    part: Inner = Field(default_factory=Inner)
    needed: Inner
    either: int | str = "1"
    words: dict[str, Annotated[str, Field(max_length=3)]] = Field(default_factory=dict)


def nodes(schema: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [*schema.get("properties", {}).values()]
    inner += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return [schema, *(node for child in inner for node in nodes(child))]


def test_each_python_form_has_its_structural_form() -> None:
    got = structural(Outer)["properties"]
    assert got["maybe"] == {"type": "integer", "format": "int64"}
    assert got["positive"] == {
        "type": "number", "default": 1, "minimum": 0, "exclusiveMinimum": True, "maximum": 3,
    }  # fmt: skip
    assert got["part"]["default"] == {}
    assert "default" not in got["needed"]
    assert got["part"]["properties"]["word"] == {"type": "string", "default": "a", "enum": ["a"]}
    assert got["either"] == {"default": "1", "x-kubernetes-int-or-string": True}
    assert got["words"]["additionalProperties"] == {"type": "string", "maxLength": 3}
    assert structural(Outer)["required"] == ["needed"]


class Tree(BaseModel):
    """Contains itself."""

    children: list["Tree"]


class Free(BaseModel):
    """Anything goes."""

    bag: dict[str, Any]


class Mixed(BaseModel):
    """A union of parts."""

    part: Inner | Outer


class Pair(BaseModel):
    """A tuple."""

    both: tuple[int, int]


@pytest.mark.parametrize("model", [Tree, Free, Mixed, Pair])
def test_what_has_no_structural_form_is_refused_by_path(model: type[BaseModel]) -> None:
    field = next(iter(model.model_fields))
    with pytest.raises(NotStructuralError, match=f"{model.__name__}.{field}"):
        structural(model)


def test_the_crd_holds_only_words_that_a_structural_schema_knows() -> None:
    schema = document()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert [set(node) - STRUCTURAL for node in nodes(schema) if set(node) - STRUCTURAL] == []


def test_every_field_of_the_crd_is_explained() -> None:
    schema = document()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in ("spec", "status"):
        found = nodes(schema["properties"][part])
        bare = [node for node in found if "description" not in node and node.get("type") == "object"]
        assert bare == []


def test_the_charts_copy_is_the_crd_itself() -> None:
    files = generated_files()
    assert files["crds/sloserves.sloserve.dev.yaml"] == text()
    assert files["charts/sloserve/files/crds/sloserves.sloserve.dev.yaml"] == text()


def test_the_reference_says_of_each_field_what_a_change_does() -> None:
    page = generated_files()["docs/reference/sloserve.md"]
    assert "| `spec.scheduler.alpha` | number | > 0, <= 10 | hot |" in page
    assert "| `spec.engine.tensorParallelSize` | integer | <= 64, default `1` | restart |" in page
    assert "| `spec.replicas` | integer | >= 0, <= 1000, default `1` | scale |" in page


def test_no_item_of_a_list_has_a_default_and_its_description_says_what_holds() -> None:
    schema = document()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    items = [inner for node in nodes(schema) if "items" in node for inner in nodes(node["items"])]
    assert [node for node in items if "default" in node] == []
    classes = schema["properties"]["spec"]["properties"]["sloClasses"]["items"]["properties"]
    assert classes["objectivePercent"]["description"].endswith(" 99 if left out.")
    assert schema["properties"]["spec"]["properties"]["replicas"]["default"] == 1, "/scale needs a value"
