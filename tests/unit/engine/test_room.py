from __future__ import annotations

from slidingserve.core.room import make_room
from slidingserve.core.settings import NO_LIMIT
from slidingserve.core.snapshot import Row
from slidingserve.core.sorter import prefill_rows

from tests.unit.engine.states import decoding, prefilling, state, waiting


def offered(
    *rows: Row, total: int = NO_LIMIT, max_chunk: int = NO_LIMIT, **engine: object
) -> tuple[list[str], list[str], int]:
    """Decodes, prefills, tokens; the service order is the order of the rows."""
    snapshot = state(*rows, **engine)  # type: ignore[arg-type]
    found = make_room(snapshot.columns, prefill_rows(snapshot.columns), total, max_chunk)
    names = [[snapshot.ids[i] for i in part] for part in (found.decodes, found.prefills)]
    return names[0], names[1], found.prefill_tokens


def test_prefills_get_what_the_decodes_leave_of_the_batch() -> None:
    rows = (decoding("d1"), decoding("d2"), waiting("w", 1000))
    assert offered(*rows, max_tokens=256) == (["d1", "d2"], ["w"], 254)


def test_more_decodes_than_tokens_leaves_those_due_first() -> None:
    rows = (decoding("later", slack=0.5), decoding("now", slack=0.1), decoding("soon", slack=0.2))
    assert offered(*rows, waiting("w", 10), max_tokens=2) == (["now", "soon"], ["w"], 0)


def test_no_more_waiting_requests_start_than_may_be_admitted() -> None:
    rows = (waiting("w1", 10), prefilling("running", 10), waiting("w2", 10), waiting("w3", 10))
    assert offered(*rows, max_admissions=2) == ([], ["w1", "running", "w2"], 30)
    assert offered(*rows, max_admissions=0) == ([], ["running"], 10)


def test_a_prompt_that_does_not_fit_the_cache_closes_the_door_behind_it() -> None:
    rows = (waiting("fits", 60), waiting("too long", 80), waiting("would fit", 5))
    assert offered(*rows, free_kv_tokens=100) == ([], ["fits"], 60)


def test_what_running_prefills_still_need_is_kept_from_new_ones() -> None:
    rows = (waiting("new", 50), prefilling("running", 70))
    assert offered(*rows, free_kv_tokens=100) == ([], ["running"], 70)


def test_decodes_take_their_cache_before_prefills() -> None:
    rows = (decoding("d"), prefilling("p", 70))
    assert offered(*rows, free_kv_tokens=11) == (["d"], ["p"], 10)


def test_a_full_cache_holds_prefills_while_decodes_run() -> None:
    assert offered(decoding("d"), prefilling("p", 70), free_kv_tokens=1) == (["d"], ["p"], 0)


def test_a_full_cache_with_nothing_else_to_do_still_gives_the_first_prefill_its_turn() -> None:
    rows = (prefilling("p1", 70), prefilling("p2", 70))
    assert offered(*rows, free_kv_tokens=0) == ([], ["p1"], 70)


def test_a_lone_prompt_larger_than_the_free_cache_is_still_tried() -> None:
    assert offered(waiting("w", 500), waiting("v", 500), free_kv_tokens=100) == ([], ["w"], 100)
    assert offered(waiting("w", 500), free_kv_tokens=100, max_admissions=0) == ([], [], 0)


def test_the_largest_chunk_bounds_the_prefill_tokens_of_a_step() -> None:
    assert offered(decoding("d"), waiting("w", 500), max_chunk=64) == (["d"], ["w"], 64)


def test_a_total_bounds_the_step_with_its_decodes_but_never_holds_a_decode() -> None:
    assert offered(decoding("d"), waiting("w", 500), total=64) == (["d"], ["w"], 63)
    assert offered(decoding("d"), decoding("e"), waiting("w", 500), total=1) == (["d", "e"], ["w"], 0)
