"""How sure a share is: the one interval that simulator, bench and reports print."""

from __future__ import annotations

import math

_Z95 = 1.959963984540054


def wilson(count: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval of ``count / total``: sane at 0, at 1 and in small samples."""
    if total <= 0:
        return 0.0, 1.0
    share, square = count / total, _Z95**2 / total
    middle = (share + square / 2) / (1 + square)
    half = _Z95 / (1 + square) * math.sqrt(share * (1 - share) / total + square / (4 * total))
    return max(middle - half, 0.0), min(middle + half, 1.0)
