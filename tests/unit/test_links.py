"""Every relative link of a Markdown file leads to a file that is there, and to a heading in it.

Anchors of Python files name tests: tests/features looks at those.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\1[`~]* *$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^()<>\s]+)>?(?:\s+\"[^\"]*\")?\)")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]: *<?([^<>\s]+)", re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}#{1,6} +(.*?)(?: +#+)? *$", re.MULTILINE)
_SET_BY_HAND = re.compile(r"<a +(?:id|name)=\"([^\"]+)\"")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def pages() -> list[Path]:
    """The Markdown files that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in sorted(listed.split("\0")) if name and (ROOT / name).exists()]


def anchors(text: str) -> set[str]:
    """Anchors by GitHub's rule: lower case, no punctuation, spaces to dashes, -1 for the second of a name."""
    found: set[str] = set()
    plain = _FENCE.sub("", text)
    for heading in _HEADING.findall(plain):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        base = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
        name, number = base, 0
        while name in found:
            number += 1
            name = f"{base}-{number}"
        found.add(name)
    return found | set(_SET_BY_HAND.findall(plain))


def links(text: str) -> Iterator[str]:
    """Targets of a page's links that stay in the repository; code is none."""
    plain = _FENCE.sub("", text)
    # Code around a link hides it; code in a link's text does not.
    plain = _CODE.sub(lambda code: "x" * len(code[0]), plain)
    for target in (*_LINK.findall(plain), *_REFERENCE.findall(plain)):
        if not _SCHEME.match(target) and not target.startswith("//"):
            yield target


def broken(page: Path, text: str) -> list[str]:
    """Links of a page that lead nowhere."""
    return [target for target in links(text) if not _leads(page, text, target)]


def _leads(page: Path, text: str, target: str) -> bool:
    path, _, anchor = unquote(target).partition("#")
    if not path:
        return anchor in anchors(text)
    there = page.parent / path
    if not there.exists():
        return False
    return not anchor or there.suffix != ".md" or anchor in _anchors_of(there.resolve())


@cache
def _anchors_of(page: Path) -> set[str]:
    return anchors(page.read_text())


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page, page.read_text()) == []


def test_the_pages_have_links_and_anchors_to_look_at() -> None:
    targets = [target for page in pages() for target in links(page.read_text())]
    assert len(targets) > 200
    assert sum(".md#" in target for target in targets) > 10


SAMPLE = """\
# What is `wrong`?

[here](#what-is-wrong) [there](method.md) [x](method.md#nothing-is-called-so) [y](gone.md) [z](#twice-1)
[a test](../tests/unit/test_links.py#test_x) [far](https://example.com/gone.md#x) `[code](gone2.md)`
[`docs`](gone3.md)

## Twice
```console
## not a heading
[no link](gone4.md)
```
## Twice
"""


def test_a_broken_link_is_seen() -> None:
    page = ROOT / "docs" / "sample.md"
    assert broken(page, SAMPLE) == ["method.md#nothing-is-called-so", "gone.md", "gone3.md"]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("What is wrong?", "what-is-wrong"),
        ("Look further: `make demo`", "look-further-make-demo"),
        ("Above capacity: relegation (not in the paper)", "above-capacity-relegation-not-in-the-paper"),
        ("CRD and operator, `snake_case`", "crd-and-operator-snake_case"),
        ("A - B", "a---b"),
        ("See [that](there.md)", "see-that"),
    ],
)
def test_an_anchor_is_made_as_github_makes_it(heading: str, anchor: str) -> None:
    assert anchors(f"## {heading}\n") == {anchor}
