"""The policies by name. A policy is one file with one class; it becomes selectable by being listed here."""

from __future__ import annotations

from slidingserve.policies.base import Policy, PolicySettings, Settings
from slidingserve.policies.dispatch import policy_id
from slidingserve.policies.fcfs import Fcfs
from slidingserve.policies.slidingserve_paper import SlidingServePaper

_POLICIES: dict[str, Policy] = {policy.name: policy for policy in (SlidingServePaper(), Fcfs())}

DEFAULT_POLICY = SlidingServePaper.name


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
