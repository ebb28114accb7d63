"""What the harness prints while it works: whole lines, and on a terminal one line that is rewritten.

Work may go on side by side (images while Go compiles), so both ways of printing share a lock, and a whole
line first wipes the one that is rewritten. No colour anywhere, so NO_COLOR has nothing to turn off.
"""

import sys
import threading

_lock = threading.RLock()
_live = False


def line(text: str) -> None:
    """Print a whole line."""
    global _live
    with _lock:
        print(("\r\x1b[K" if _live else "") + text, flush=True)
        _live = False


def live(text: str) -> None:
    """Rewrite the terminal's last line; in a pipe or a file this is a line like any other."""
    global _live
    if not rewrites():
        line(text)
        return
    with _lock:
        print(f"\r\x1b[K{text}", end="", flush=True)
        _live = True


def done() -> None:
    """Wipe the rewritten line."""
    global _live
    with _lock:
        if _live:
            print("\r\x1b[K", end="", flush=True)
        _live = False


def rewrites() -> bool:
    """Whether lines can be rewritten here."""
    return sys.stdout.isatty()


def duration(seconds: float) -> str:
    """A time to wait as people say it: 40 s, 3 min, 1 h 20 min."""
    if seconds < 90:
        return f"{max(10, round(seconds / 10) * 10)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def size(count: float) -> str:
    """Bytes as people say them: 3.2 GB, 40 MB."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
