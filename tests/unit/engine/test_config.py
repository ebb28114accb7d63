from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema
import pytest
from pydantic.alias_generators import to_camel
from slidingserve import config, policies
from slidingserve.config import ConfigError, EngineConfig, SchedulerSettings, builtin, loads, revision_of
from slidingserve.core.settings import PolicySettings

DIALOGUE = {
    "name": "dialogue",
    "ttftMilliseconds": 500,
    "ttftSlowdown": None,
    "tbtMilliseconds": 40,
    "objectivePercent": 99,
    "safeguard": False,
}
SUMMARY = {"name": "summarization", "ttftSlowdown": 10, "tbtMilliseconds": 80, "safeguard": True}
DOCUMENT = {
    "schemaVersion": 1,
    "revision": "0123456789ab",
    "generation": 4,
    "classes": [DIALOGUE, SUMMARY],
    "defaultClass": "dialogue",
    "scheduler": {
        "policy": "slidingserve_paper",
        "alpha": 0.7,
        "predictor": {"refreshSeconds": 15},
        "chunk": {"minTokens": 32, "maxTokens": 512},
    },
}


def load(**changes: Any) -> EngineConfig:
    return loads(json.dumps({**DOCUMENT, **changes}))


def scheduler(**changes: Any) -> EngineConfig:
    return load(scheduler=changes)


def test_what_the_operator_writes_is_read_as_it_was_meant() -> None:
    read = load()
    assert (read.revision, read.generation, read.default_class) == ("0123456789ab", 4, "dialogue")
    dialogue, summary = read.classes
    assert dialogue.ttft_seconds(solo_seconds=9.9) == 0.5
    assert summary.ttft_seconds(solo_seconds=0.3) == pytest.approx(3.0)
    assert (dialogue.tbt_seconds, summary.safeguard, summary.objective_percent) == (0.04, True, 99)
    assert read.scheduler.predictor.refresh_seconds == 15
    settings = read.policy_settings()
    assert (settings.alpha, settings.min_chunk, settings.max_chunk) == (0.7, 32, 512)


def test_an_absent_alpha_is_the_policys_own() -> None:
    assert scheduler().alpha == 0.8
    assert scheduler(alpha=None).policy_settings().alpha == 0.8


def test_the_readings_of_the_paper_can_be_chosen() -> None:
    settings = scheduler(
        options={"margin": 1, "late": "paper_equation", "tight": "min_chunk"}
    ).policy_settings()
    assert (settings.margin, settings.late, settings.tight) == (1.0, "paper_equation", "min_chunk")


def test_the_built_in_configuration_promises_ten_solo_times_and_a_tenth_of_a_second_a_token() -> None:
    only = builtin().slo_class(None)
    assert (only.name, only.ttft_seconds(0.2), only.tbt_seconds) == ("default", 2.0, 0.1)


def test_a_class_is_found_by_name_and_an_unknown_one_is_refused_with_the_names_there_are() -> None:
    assert load().slo_class("summarization").ttft_slowdown == 10
    assert load().slo_class(None).name == "dialogue"
    with pytest.raises(ConfigError, match="'chat' is no SLO class; choose one of dialogue, summarization"):
        load().slo_class("chat")


def test_unknown_keys_are_ignored_and_reported_by_path() -> None:
    read = load(
        shards=3,
        classes=[DIALOGUE, {**SUMMARY, "weight": 2}],
        scheduler={"admission": {"mode": "reject"}, "chunk": {"step": 8}},
    )
    assert read.unknown_keys() == [
        "classes[1].weight",
        "scheduler.admission",
        "scheduler.chunk.step",
        "shards",
    ]
    assert load().unknown_keys() == []


def test_a_file_without_labels_gets_the_hash_of_its_hot_content() -> None:
    document = {key: value for key, value in DOCUMENT.items() if key not in ("revision", "generation")}
    read = loads(json.dumps(document))
    assert read.generation == 0
    assert len(read.revision) == 12
    assert read.revision == loads(json.dumps(document)).revision
    changed = {**document, "defaultClass": "summarization"}
    assert loads(json.dumps(changed)).revision != read.revision


def test_a_revision_is_of_the_hot_content_alone_and_of_no_key_order() -> None:
    shuffled = dict(reversed(list(DOCUMENT.items())))
    assert revision_of(DOCUMENT) == revision_of({**shuffled, "generation": 99, "revision": "x"})
    assert revision_of(DOCUMENT) != revision_of({**DOCUMENT, "scheduler": {}})


def _class(**changes: Any) -> dict[str, Any]:
    return {"classes": [DIALOGUE, {**SUMMARY, **changes}]}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"schemaVersion": 2}, "schemaVersion: 2 should be 1"),
        ({"generation": -1}, "generation: -1 should be greater than or equal to 0"),
        ({"generation": "4"}, 'generation: "4" should be a valid integer'),
        ({"revision": "a b"}, 'revision: "a b" should match pattern'),
        ({"classes": []}, "classes: [] should have at least 1 item"),
        (
            {"classes": [DIALOGUE, DIALOGUE]},
            "classes: 'dialogue' is there twice; give each class its own name",
        ),
        ({"defaultClass": "chat"}, "defaultClass: 'chat' is no class; choose one of dialogue, summarization"),
        (_class(name="a b"), 'classes[1].name: "a b" should match pattern'),
        (
            _class(tbtMilliseconds=0),
            "classes[1].tbtMilliseconds: 0 should be greater than 0; expected: Time a tok",
        ),
        (_class(tbtMilliseconds="80"), 'classes[1].tbtMilliseconds: "80" should be a valid number'),
        (_class(tbtMilliseconds=True), "classes[1].tbtMilliseconds: true should be a valid number"),
        (_class(ttftMilliseconds=500), "classes[1]: both are set; give ttftMilliseconds or ttftSlowdown"),
        (_class(ttftSlowdown=None), "classes[1]: neither is set; give ttftMilliseconds or ttftSlowdown"),
        (_class(ttftSlowdown=0.5), "classes[1].ttftSlowdown: 0.5 should be greater than or equal to 1"),
        (
            _class(objectivePercent=101),
            "classes[1].objectivePercent: 101 should be less than or equal to 100",
        ),
        (
            {"scheduler": {"policy": "edf"}},
            "scheduler.policy: \"edf\" should be 'fcfs', 'ppas', 'qoserve', 'sarathi_edf' or 'sli",
        ),
        (
            {"scheduler": {"alpha": "abc"}},
            'scheduler.alpha: "abc" should be a valid number; expected: Urgency',
        ),
        ({"scheduler": {"alpha": -1}}, "scheduler.alpha: -1 should be greater than or equal to 0"),
        ({"scheduler": {"alpha": float("nan")}}, "scheduler.alpha: NaN should be a finite number"),
        (
            {"scheduler": {"predictor": {"refreshSeconds": 0}}},
            "scheduler.predictor.refreshSeconds: 0 should be",
        ),
        (
            {"scheduler": {"predictor": {"method": "ridge"}}},
            "scheduler.predictor.method: \"ridge\" should be 'robust' or 'ols'; expected: How it is fitted",
        ),
        (
            {"scheduler": {"predictor": {"expertSamples": 1}}},
            "scheduler.predictor.expertSamples: 1 should be greater than or equal to 8",
        ),
        (
            {"scheduler": {"options": {"search": "binary"}}},
            "scheduler.options.search: \"binary\" should be 'clamped' or 'paper'; expected: b in [max(|D|",
        ),
        (
            {"scheduler": {"options": {"quantum": 0}}},
            "scheduler.options.quantum: 0 should be greater than or equal to 1; expected: Most tokens a cell",
        ),
        (
            {"scheduler": {"options": {"constructor": "yes"}}},
            'scheduler.options.constructor: "yes" should be a valid boolean; expected: Whether Algorithm 2',
        ),
        (
            {"scheduler": {"options": {"budget": 1.5}}},
            "scheduler.options.budget: 1.5 should be a valid integer",
        ),
        (
            {"scheduler": {"chunk": {"minTokens": 1.5}}},
            "scheduler.chunk.minTokens: 1.5 should be a valid integer",
        ),
        (
            {"scheduler": {"chunk": {"minTokens": 64, "maxTokens": 32}}},
            "scheduler.chunk: maxTokens 32 is below minTokens 64; raise it or lower that",
        ),
    ],
)
def test_a_bad_setting_is_a_sentence_with_field_value_and_remedy(
    changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(**changes)
    assert str(refusal.value).startswith(sentence)
    assert "; " in str(refusal.value), "the remedy follows"
    assert "\n" not in str(refusal.value)


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as refusal:
        load(generation=-1, scheduler={"alpha": "abc"})
    assert "generation: -1" in str(refusal.value)
    assert 'scheduler.alpha: "abc"' in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "{",
            "slidingserve.json: it is not JSON (EOF while parsing an object at line 1 column 1); write one",
        ),
        ("[1]", "slidingserve.json: [1] should be an object"),
        (b"\xff", "slidingserve.json: it is not JSON"),
        ("{}", "schemaVersion: it is missing; expected: Version of this format: 1; classes: it is missing"),
        ("[" * 10_000, "slidingserve.json: it is not JSON"),
    ],
)
def test_a_broken_file_says_where(text: str | bytes, sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        loads(text)
    assert str(refusal.value).startswith(sentence)


def test_a_chunk_above_what_this_engine_batches_is_refused_by_the_engine_alone() -> None:
    read = scheduler(chunk={"maxTokens": 99_999})
    with pytest.raises(ConfigError) as refusal:
        read.check_engine(max_num_batched_tokens=2048)
    assert str(refusal.value) == (
        "scheduler.chunk.maxTokens: 99999 is above the 2048 tokens that this engine's batch holds "
        "(max_num_batched_tokens); give at most 2048"
    )
    read.check_engine(max_num_batched_tokens=99_999)


def test_a_budget_above_what_this_engine_batches_is_refused_too() -> None:
    with pytest.raises(ConfigError, match=r"scheduler.options.budget: 4096 is above the 2048 tokens"):
        scheduler(options={"budget": 4096}).check_engine(max_num_batched_tokens=2048)


def test_what_happens_above_capacity_is_chosen_by_its_mode() -> None:
    assert scheduler().policy_settings().overload == "serve"
    assert scheduler(overload={"mode": "relegate"}).policy_settings().overload == "relegate"
    with pytest.raises(ConfigError, match=r"^scheduler\.overload\.mode: .*serve"):
        scheduler(overload={"mode": "reject"})


SETTINGS = {field.name: field for field in dataclasses.fields(PolicySettings)}
OPTIONS = sorted(SETTINGS.keys() - {"alpha", "min_chunk", "max_chunk", "overload"})


@pytest.mark.parametrize("name", OPTIONS)
def test_every_setting_of_a_policy_is_an_option_with_its_default_its_words_and_its_effect(name: str) -> None:
    field = config.MethodOptions.model_fields[name]
    assert field.default == SETTINGS[name].default
    assert len(field.description or "") > 20
    kind = get_type_hints(PolicySettings)[name]
    choices = get_args(kind)
    if kind is bool:
        other: Any = not field.default
    elif all(isinstance(choice, str) for choice in choices) and choices:
        other = next(choice for choice in choices if choice != field.default)
        assert other in str(field.description), "an error tells the choices"
    else:
        other = 2
    read = scheduler(options={to_camel(name): other})
    assert read.unknown_keys() == []
    assert getattr(read.policy_settings(), name) == other != field.default
    with pytest.raises(
        ConfigError, match=rf"^scheduler\.options\.{to_camel(name)}: .* should .*; expected: "
    ):
        scheduler(options={to_camel(name): []})


def test_without_options_the_settings_are_the_policies_own() -> None:
    assert builtin().policy_settings() == PolicySettings()


def test_every_policy_can_be_named_in_the_configuration_and_no_other() -> None:
    named = SchedulerSettings.model_json_schema()["properties"]["policy"]["enum"]
    assert sorted(named) == policies.names()


def test_the_exported_schema_is_current_and_accepts_what_the_operator_writes() -> None:
    text = config.SCHEMA_FILE.read_text()
    assert text == config.schema_text(), "run `python -m slidingserve.config`"
    validator = jsonschema.Draft202012Validator(json.loads(text))
    validator.validate(DOCUMENT)
    validator.validate({**DOCUMENT, "unknown": 1})
    assert not validator.is_valid({**DOCUMENT, "scheduler": {"alpha": "abc"}})
    assert not validator.is_valid({**DOCUMENT, "classes": [{**DIALOGUE, "tbtMilliseconds": 0}]})


def test_a_configuration_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().scheduler.alpha = 3.0  # type: ignore[misc]


def test_the_module_writes_the_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "SCHEMA_FILE", tmp_path / "schema.json")
    config.main()
    assert (tmp_path / "schema.json").read_text() == config.schema_text()
