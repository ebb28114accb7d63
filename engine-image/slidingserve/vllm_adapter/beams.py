"""Beam search, which vLLM does by many requests of one token: to its client it is one request.

Each step asks for the next token of every beam of a prompt, under names made anew. Here the steps of a prompt
are the tokens of one `Sequence` (see `attainment`), and each is due when that token is. The wrappers of
`plugin` ask with the name that vLLM gives a request.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slidingserve.server.attainment import Sequence, Tracker
    from slidingserve.server.promise import Promise

_NAME = re.compile(r"(.+)-[0-9a-f]{16}-beam-([0-9]+)", re.ASCII)
"""The prompt's own name, the step's and the number of the beam."""


def due(tracker: Tracker | None, promise: Promise, request_id: str) -> Promise:
    """What the core is told: the first token of a later step is due as late as the prompt's next token."""
    found = _NAME.fullmatch(request_id)
    known = tracker.beams.get(found[1]) if tracker is not None and found is not None else None
    return promise if known is None else replace(promise, ttft=promise.ttft + known.tokens * promise.tbt)


def sequence(tracker: Tracker, promise: Promise, request_id: str) -> Sequence | None:
    """What to follow of a request that was accepted: one of each step of a beam search, any other itself.

    A client can choose such a name for a plain request; it is the first of its kind then, and followed.
    """
    found = _NAME.fullmatch(request_id)
    if found is None:
        return tracker.start(promise)
    known = tracker.beams.get(found[1])
    if known is None:
        known = tracker.beams[found[1]] = tracker.start(promise)
        return known
    return known if found[2] == "0" else None
