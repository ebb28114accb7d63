"""Growing pauses between attempts. Used by `queue` for failed work and by `nudge` for pods that lag."""

MOST_DOUBLINGS = 64  # a float overflows at 1024, and no pause here takes so many to reach its longest


def pause(attempts: int, first: float, longest: float) -> float:
    """Seconds to wait after `attempts` earlier ones: `first`, doubled each time, at most `longest`."""
    return min(longest, first * 2.0 ** min(attempts, MOST_DOUBLINGS))
