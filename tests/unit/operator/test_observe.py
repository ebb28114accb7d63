"""What a look keeps of what engines said: one silence is forgiven, a second is told."""

from typing import Any

from sloserve_operator.api.engine import EngineState
from sloserve_operator.api.resource import SLOServe
from sloserve_operator.cache import Cache
from sloserve_operator.observe import observe

from tests.unit.operator.objects import manifest, pod, state

SILENT = "did not answer within 2 s"


class Engine:
    """Says the next thing of a list."""

    def __init__(self, *says: EngineState | str) -> None:
        self.says = list(says)

    async def read(self, address: str) -> EngineState | str:
        return self.says.pop(0)


async def looks(*says: EngineState | str) -> list[EngineState | str]:
    """What each look has of an engine that says these things in turn."""
    cache, heard, found = Cache(), dict[str, EngineState](), []
    one: dict[str, Any] = pod("chat-1")
    cache.put("Pod", one)
    engine, resource = Engine(*says), SLOServe.parse(manifest())
    for _ in says:
        (view,) = (await observe(cache, engine, resource, heard)).pods
        found.append(view.state or view.unreachable)
    cache.drop("Pod", one)
    assert not (await observe(cache, engine, resource, heard)).pods
    assert heard == {}, "nothing is kept of a pod that is gone"
    return found


async def test_one_silence_is_forgiven_and_a_second_is_told() -> None:
    word = state("new", 4)
    assert await looks(word, SILENT, word, SILENT, SILENT, word) == [word, word, word, word, SILENT, word]


async def test_an_engine_that_never_said_anything_is_out_of_reach_at_once() -> None:
    assert await looks(SILENT, SILENT) == [SILENT, SILENT]
