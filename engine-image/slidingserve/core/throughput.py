"""Rho of equation 9: how many prefill tokens a second the engine has done lately.

Shared by the learner in the engine and the simulator, so that both measure the same thing.
"""

from __future__ import annotations

from slidingserve.core.compiled import compiled

MEMORY = 0.95
"""What remains of earlier batches when one more with a prefill was run: about the last twenty count."""


@compiled
def update(
    tokens_sum: float, seconds_sum: float, prefill_tokens: float, seconds: float
) -> tuple[float, float]:
    """Count a batch: rho is the first sum over the second. Both start at 0; pure decodes leave them."""
    if prefill_tokens <= 0:
        return tokens_sum, seconds_sum
    return MEMORY * tokens_sum + prefill_tokens, MEMORY * seconds_sum + seconds
