"""Settings files that nobody should write: seeded, so that a failure can be repeated by its number."""

from __future__ import annotations

import json
import random
from typing import Any

GOOD: dict[str, Any] = {
    "schemaVersion": 1,
    "revision": "aaaaaaaaaaaa",
    "generation": 3,
    "classes": [
        {"name": "dialogue", "ttftMilliseconds": 20000, "tbtMilliseconds": 2000},
        {"name": "strict", "ttftMilliseconds": 0.001, "tbtMilliseconds": 0.001},
        {"name": "slow", "ttftSlowdown": 500, "tbtMilliseconds": 5000},
    ],
    "defaultClass": "dialogue",
    "scheduler": {"policy": "slidingserve_paper", "alpha": 0.8, "chunk": {"minTokens": 16, "maxTokens": 64}},
}
VALUES = (
    *("NaN", "Infinity", "-Infinity", "-1", "-0", "0.5", "1e400", "1e-400", "true", "null", '""', "[]", "{}"),
    *(
        str(2**53),
        str(2**63),
        str(2**64),
        "9" * 400,
        "9" * 5000,
        "1." + "0" * 5000 + "1",
        "0x10",
        "1_0",
        "+7",
    ),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\u0665"', '"\u202e"', '"' + "x" * 5000 + '"'),
    *("[" * 150 + "]" * 150, "[" * 100_000, '{"a":' * 150 + "1" + "}" * 150),
)
"""JSON's words for values, and what is none."""
KEYS = ("generation", "revision", "schemaVersion", "defaultClass", "classes", "scheduler", "\\ud800", "other")


def hostile(number: int) -> bytes:
    """The file of that number: most are refused, some are good, and any may be cut or wrongly encoded."""
    random_ = random.Random(number)
    document = {**GOOD, **dict.fromkeys(random_.sample(KEYS, random_.choice([1, 1, 2])), "@")}
    text = json.dumps(document).replace("\\\\u", "\\u")
    while '"@"' in text:
        text = text.replace('"@"', random_.choice(VALUES), 1)
    if random_.random() < 0.5:
        text = _changed(text, random_)
    encoding = random_.choice(["utf-8"] * 8 + ["utf-16", "utf-8-sig", "latin-1"])
    content = text.encode(encoding, "replace")
    if random_.random() < 0.15:
        content = content[: random_.randrange(len(content) + 1)]
    if random_.random() < 0.1:
        at = random_.randrange(len(content) + 1)
        content = content[:at] + random_.randbytes(random_.randint(1, 8)) + content[at:]
    return content


def _changed(text: str, random_: random.Random) -> str:
    value = random_.choice(VALUES)
    kind = random_.randrange(4)
    if kind == 0:  # a key once more, or one that is not known
        return text[:-1] + f', "{random_.choice(KEYS)}": {value}}}'
    if kind == 1:  # once more, at the front
        return f'{{"{random_.choice(KEYS)}": {value}, ' + text[1:]
    if kind == 2:  # another value in place of one
        words = [
            word
            for word in ("3", "20000", "0.001", "500", "0.8", "16", "64", '"dialogue"', "1,")
            if word in text
        ]
        return text.replace(random_.choice(words or ["1"]), value, 1)
    return random_.choice([value, "", " " * 2_000_000, text + text, text.replace(":", "=", 1)])
