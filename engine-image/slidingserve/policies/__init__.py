"""The policies by name. A policy is one file with a compiled `plan`; it becomes selectable by being listed
here and in `dispatch`."""

from __future__ import annotations

from slidingserve.policies import ppas, qoserve, sarathi_edf, slidingserve_paper
from slidingserve.policies.adapt import CompiledPolicy
from slidingserve.policies.base import Policy, PolicySettings, Settings
from slidingserve.policies.dispatch import policy_id
from slidingserve.policies.fcfs import Fcfs

DEFAULT_POLICY = "slidingserve_paper"

_ALL: tuple[Policy, ...] = (
    Fcfs(),
    CompiledPolicy("ppas", ppas.plan),
    CompiledPolicy("qoserve", qoserve.plan),
    CompiledPolicy("sarathi_edf", sarathi_edf.plan),
    CompiledPolicy(DEFAULT_POLICY, slidingserve_paper.plan),
)
_POLICIES = {policy.name: policy for policy in _ALL}


def names() -> list[str]:
    """The names that `get` knows, sorted."""
    return sorted(_POLICIES)


def get(name: str) -> Policy:
    """The policy of that name. Raises ValueError with the names there are."""
    try:
        return _POLICIES[name]
    except KeyError:
        raise ValueError(
            f"scheduler.policy: {name!r} is unknown; choose one of {', '.join(names())}"
        ) from None


__all__ = ["DEFAULT_POLICY", "Policy", "PolicySettings", "Settings", "get", "names", "policy_id"]
