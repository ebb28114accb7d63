"""Second step of a pass: every child as it is desired, each by itself. Called by `reconcile`.

What stands in the way of one child is told and holds up no other. A server that does not answer, or asks to
be left alone, is not asked for the rest in the same pass: the status would wait for all these deadlines.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .api.conditions import Reason
from .api.resource import Object, SLOServe
from .cache import Cache, key_of
from .children import Again, Children
from .desired import Context, build
from .desired.pod import FIXED
from .holding import NEEDED_BY_PODS, held
from .observe import children
from .status import Problem

# Not the claim: it holds data, which nobody loses by editing a spec. It goes with the resource.
PRUNED = {"ServiceAccount", "ConfigMap", "Service", "NetworkPolicy", "PodDisruptionBudget", "Deployment"}
MOST_RESTARTS = 5
MOST_SILENT = 2
"""Children for whose write the server did not answer, in one pass: one may be a webhook of its kind."""


@dataclass(frozen=True)
class Images:
    """Default engine images."""

    engine: str
    engine_cpu: str


class Applier:
    """Writes all children of a resource."""

    def __init__(
        self,
        cache: Cache,
        writer: Children,
        images: Images,
        operator: Object,
        unseen: Callable[[str, str], str] = lambda _namespace, _kind: "",
        run_as: str = FIXED,
    ) -> None:
        """`unseen`: why a kind cannot be read in a namespace, or "". `run_as`: whose users pods have."""
        self._cache, self._writer = cache, writer
        self._images, self._operator, self._unseen = images, operator, unseen
        self._run_as = run_as

    async def apply(self, resource: SLOServe) -> Problem | None:
        """All children in order. Returns: what stands in the way of those that cannot be had."""
        for left in reversed(range(MOST_RESTARTS)):
            deployment, config_map = children(self._cache, resource)
            images = (self._images.engine, self._images.engine_cpu)
            context = Context(*images, deployment, config_map, self._operator, self._run_as)
            desired = build(resource, context)
            try:
                problems = await self._each(resource, desired, last=left == 0)
            except Again:
                continue
            self._writer.telemetry.unwritten.labels(*resource.key).set(len(problems))
            return summary(problems)
        raise AssertionError("the last round starts nothing over")

    async def _each(self, resource: SLOServe, desired: list[Object], *, last: bool) -> list[Problem]:
        problems: dict[str, Problem] = {}
        silent = 0
        for child in desired:
            kind = child["kind"]
            if why := self._unseen(resource.namespace, kind):
                problems[kind] = Problem(Reason.FORBIDDEN, f"{kind} {child['metadata']['name']}: {why}")
                continue
            wanted = self._held(resource, desired, child, problems) if kind == "Deployment" else child
            if wanted is None:
                continue
            try:
                problem = await self._writer.ensure(resource, wanted)
            except Again:
                if not last:
                    raise
                problem = self._writer.unsteady(resource, wanted)
            if problem:
                problems.setdefault(kind, problem)
                silent += problem.server == "silent"
                if problem.server == "busy" or silent >= MOST_SILENT:
                    return [*problems.values()]
        if why := self._unseen(resource.namespace, "Pod"):
            problems["Pod"] = Problem(Reason.FORBIDDEN, f"pods cannot be looked at: {why}")
        return [*problems.values(), *await self._writer.prune(resource, desired, PRUNED)]

    def _held(
        self, resource: SLOServe, desired: list[Object], child: Object, problems: Mapping[str, Problem]
    ) -> Object | None:
        needed = [other for other in desired if other["kind"] in NEEDED_BY_PODS]
        live = self._cache.get("Deployment", key_of(child)) if self._writer.have(resource, child) else None
        return held(
            child, live, lambda: not all(self._writer.have(resource, one) for one in needed), problems
        )


def summary(problems: list[Problem]) -> Problem | None:
    """One problem of several: the first that is more than a hiccup, with the sentences of all."""
    told = [problem for problem in problems if not problem.passing] or problems
    if not told:
        return None
    first = next((problem for problem in told if problem.spec_at_fault), told[0])
    texts = dict.fromkeys([first.message, *(problem.message for problem in told)])
    return Problem(first.reason, "; ".join(texts), first.passing)
