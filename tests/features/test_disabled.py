"""A sample of features taken out of the operator, one at a time: the tests of their rows must then fail.

The operator's package is copied, one thing is changed in the copy, and the row's test runs against it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.api import Cluster
from tests.features.table import PAGE, ROOT, rows

pytestmark = pytest.mark.cluster
PACKAGE = "sloserve_operator"


@dataclass(frozen=True)
class Change:
    """What takes a feature out: in `file`, `old` becomes `new`; and the test that must notice."""

    row: str
    file: str
    old: str
    new: str
    test: str


CONTRACT = "tests/contract"
QUICK = [
    Change(
        "An operator upgrade restarts no engine",
        "desired/restart.py",
        "if written is None:",
        "if True:",
        f"{CONTRACT}/test_desired.py::test_a_deployment_of_the_operator_before_template_versions_is_not_restarted",
    ),
    Change(
        "Which generation is in force",
        "nudge.py",
        "out.append((pod, value if pending.count == 0",
        "out and out.append((pod, value if pending.count == 0",
        f"{CONTRACT}/test_live.py::test_a_pod_on_older_settings_is_nudged_and_counts_when_it_says_so",
    ),
]
SLOW = [
    Change(
        "Another spelling of a quantity restarts nothing",
        "desired/restart.py",
        "return digest(by_value(cold))",
        "return digest(cold)",
        f"{CONTRACT}/test_desired.py"
        "::test_a_new_spelling_of_a_quantity_is_no_new_generation_of_the_deployment",
    ),
    Change(
        "Ready is only what runs",
        "status.py",
        """counts.get("observedGeneration", 0) >= (deployment.get("metadata") or {}).get("generation", 1)
        and """,
        "",
        f"{CONTRACT}/test_ready.py::test_while_the_controllers_stand_still_a_new_generation_is_not_called_ready",
    ),
    Change(
        "Out of memory",
        "containers.py",
        'if ended.get("reason") == "OOMKilled":',
        'if ended.get("exitCode") == 137:',
        f"{CONTRACT}/test_reasons.py::test_exit_code_137_alone_is_not_called_out_of_memory",
    ),
    Change(
        "Children no longer wanted go",
        "children.py",
        "surplus = (kind, key_of(obj)) not in wanted",
        "surplus = False",
        f"{CONTRACT}/test_desired.py::test_children_that_are_no_longer_wanted_go_and_pods_are_not_touched",
    ),
    Change(
        "Drift is repaired",
        "children.py",
        "if field_path := drift(_comparable(desired), live):",
        "if field_path := None:",
        f"{CONTRACT}/test_children.py::test_what_somebody_changes_or_deletes_is_repaired",
    ),
    Change(
        "Objects of others are never touched",
        "children.py",
        """    if owner.get("uid") == resource.uid:
        return None
""",
        "    return None\n",
        f"{CONTRACT}/test_children.py::test_objects_of_somebody_else_stay_untouched_until_they_go",
    ),
    Change(
        "Nothing is written that is so already",
        "status.py",
        "return SLOServeStatus.model_validate(new) == SLOServeStatus.model_validate(old)",
        "return False",
        f"{CONTRACT}/test_children.py::test_a_second_pass_writes_nothing_even_after_a_restart",
    ),
]
CHANGES = [*QUICK, *(pytest.param(change, marks=pytest.mark.soak) for change in SLOW)]


def _name(change: Change) -> str:
    return change.row


@pytest.mark.parametrize("change", CHANGES, ids=_name)
def test_without_its_feature_a_row_fails(change: Change, cluster: Cluster, tmp_path: Path) -> None:
    shown = {s.node for row in rows(PAGE.read_text()) if row.name == change.row for s in row.shown}
    assert change.test.partition("[")[0] in shown, "the test is linked in that row"
    shutil.copytree(ROOT / "operator" / PACKAGE, tmp_path / PACKAGE)
    file = tmp_path / PACKAGE / change.file
    text = file.read_text()
    assert text.count(change.old) == 1, f"{change.file} has no longer what the change takes out"
    file.write_text(text.replace(change.old, change.new))
    done = run(change.test, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout, done.stdout


def run(test: str, package: Path) -> subprocess.CompletedProcess[str]:
    """One test with another operator."""
    path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path, "KEEP_CLUSTER": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
