"""Plans of one minute of every workload are those that were recorded."""

from __future__ import annotations

import json

import pytest
from slidingserve.policies.dispatch import NAMES

from tests import golden

RECORDED = json.loads(golden.FILE.read_text())["plans"]


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("workload", golden.RATES)
def test_the_plans_of_a_minute_are_those_recorded(workload: str, policy: str) -> None:
    for asynchronous in (False, True):
        found = golden.plans(workload, policy, asynchronous=asynchronous)
        wanted = RECORDED[workload][golden.name(policy, asynchronous)]
        assert found == wanted, 'plans have changed; if that is meant: make golden REASON="why"'
