"""How a page of commands is read and compared."""

import pytest

from tests.e2e.transcript import Command, alike, blocks, rerun

PAGE = """\
Words.

<!-- until: kubectl wait x -->
```console
$ kubectl get x
NAME   AGE
chat   12s
$ kubectl patch x \\
    -p y
x patched
```

```sh
$ not run
```
"""


def test_commands_and_their_outputs_are_read_with_what_they_wait_for() -> None:
    (block,) = blocks(PAGE)
    assert block.waits == ("kubectl wait x",)
    assert block.commands == (
        Command("kubectl get x", "NAME   AGE\nchat   12s\n"),
        Command("kubectl patch x \\\n    -p y", "x patched\n"),
    )


def test_a_page_whose_outputs_are_alike_stays_as_it_is_and_another_output_is_written() -> None:
    said = {"kubectl get x": "NAME   AGE\nchat   3m5s\n", "kubectl patch x \\\n    -p y": "x patched\n"}
    waited: list[str] = []
    assert rerun(PAGE, lambda words: said[words], waited.append) == PAGE
    assert waited == ["kubectl wait x"]
    said["kubectl get x"] = "NAME   AGE\nother   3m5s\n"
    assert rerun(PAGE, lambda words: said[words], waited.append) == PAGE.replace("chat   12s", "other   3m5s")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("demo-5c9f7d8b9-x2x4z Running 3m", "demo-7744d6f5c4-abcde   Running 12s"),
        ("generation 3 is in force", "generation 12 is in force"),
        ("demo True Fine 1/1 False 47.2 % demo 21m", "demo True Fine 1/1 Unknown demo 3s"),
        ("SLOMet=True ObjectivesMet: all do", "SLOMet=Unknown TooFewRequests: 3"),
        ("dialogue 99.4 % (n=1830)", "dialogue 100.0 % (n=7)"),
        ("Last Transition Time:  2026-11-30T14:00:00Z", "Last Transition Time:  2026-12-01T01:02:03Z"),
    ],
)
def test_what_differs_from_run_to_run_is_alike(one: str, two: str) -> None:
    assert alike(one) == alike(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [("True", "False"), ("demo 1/1 True", "demo 0/1 True"), ("alpha 0.5", "alpha 0.8"), ("a", "b")],
)
def test_what_matters_is_not_alike(one: str, two: str) -> None:
    assert alike(one) != alike(two)
