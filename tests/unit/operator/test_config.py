"""Revision and generation of the live settings, and the engine's own schema for them."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slidingserve.config import loads
from sloserve_operator.desired import Context, build, config

from tests.unit.operator.objects import resource
from tests.unit.operator.test_marks import FULL

SCHEMA = Path(__file__).parents[3] / "engine-image" / "slidingserve" / "config.schema.json"
NEVER: list[config.Written] = []


def written_by(**changes: Any) -> dict[str, Any]:
    """The ConfigMap that a resource leaves behind."""
    return next(o for o in build(resource(**changes), Context("e", "c")) if o["kind"] == "ConfigMap")


def label(document: dict[str, Any]) -> tuple[str, int]:
    return document["revision"], document["generation"]


def test_the_first_settings_bear_the_generation_of_the_resource() -> None:
    assert config.document(resource(generation=4), NEVER)["generation"] == 4


@pytest.mark.parametrize("change", [{"replicas": 9}, {"model": {"uri": "hf://org/other"}}, {"engine": {}}])
def test_scaling_or_a_cold_field_changes_neither_revision_nor_generation(change: dict[str, Any]) -> None:
    before = config.written(written_by(generation=4))
    assert before is not None
    after = config.document(resource(generation=5, **change), [before])
    assert label(after) == (before.revision, 4)


def test_a_hot_field_gives_a_new_revision_at_the_resources_generation() -> None:
    before = config.written(written_by(generation=4))
    assert before is not None
    after = config.document(resource(generation=5, scheduler={"alpha": 0.5}), [before])
    assert after["generation"] == 5
    assert after["revision"] != before.revision


def test_a_lost_config_map_gets_its_generation_back_from_the_status() -> None:
    revision = config.document(resource(), NEVER)["revision"]
    of = resource(generation=9, status={"config": {"revision": revision, "generation": 4}})
    made = next(o for o in build(of, Context("e", "c")) if o["kind"] == "ConfigMap")
    assert config.written(made) == config.Written(revision, 4)


@pytest.mark.parametrize("data", [None, {}, {"slidingserve.json": "{"}, {"slidingserve.json": "[]"}])
def test_a_config_map_that_we_cannot_read_has_no_label(data: Any) -> None:
    assert config.written({"data": data}) is None


def test_settings_changed_by_hand_lose_their_label() -> None:
    made = written_by()
    content = json.loads(made["data"][config.KEY])
    content["scheduler"]["alpha"] = 0.1
    made["data"][config.KEY] = json.dumps(content)
    assert config.written(made) is None


def test_how_a_number_is_spelt_does_not_change_the_revision() -> None:
    a = resource(scheduler={"alpha": 1, "predictor": {"refreshSeconds": 30.0}})
    b = resource(scheduler={"alpha": 1.0})
    assert config.document(a, NEVER) == config.document(b, NEVER)


def test_an_absent_alpha_is_left_to_the_policy() -> None:
    assert "alpha" not in config.document(resource(scheduler={}), NEVER)["scheduler"]


classes = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True),
            "ttft": st.one_of(
                st.fixed_dictionaries({"slowdown": st.floats(1, 100)}),
                st.fixed_dictionaries({"milliseconds": st.integers(1, 100_000)}),
            ),
            "tbtMilliseconds": st.floats(1, 10_000),
            "objectivePercent": st.floats(1, 99.99),
        }
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda slo: str(slo["name"]),
)


@settings(deadline=None, max_examples=50)
@given(classes=classes, alpha=st.floats(0.01, 10))
def test_the_engine_accepts_whatever_the_operator_writes(classes: list[dict[str, Any]], alpha: float) -> None:
    of = resource(sloClasses=classes, defaultClass=classes[0]["name"], scheduler={"alpha": alpha})
    jsonschema.validate(config.document(of, NEVER), json.loads(SCHEMA.read_text()))


def test_the_engine_knows_every_setting_that_a_resource_can_hold() -> None:
    of = resource(**{part: FULL[part] for part in ("sloClasses", "defaultClass", "scheduler")})
    read = loads(config.text(config.document(of, NEVER)))
    assert read.unknown_keys() == []
    options = FULL["scheduler"]["options"]
    assert read.scheduler.options.model_dump(by_alias=True) == options, "every option arrives"
    assert read.scheduler.predictor.method == "ols"


def test_an_option_that_is_left_out_is_left_to_the_engine() -> None:
    assert config.document(resource(scheduler={"options": {"margin": 1}}), NEVER)["scheduler"]["options"] == {
        "margin": 1
    }
    assert "options" not in config.document(resource(), NEVER)["scheduler"]
