"""All policies behind one compiled function, chosen by number: what the simulator's compiled loop calls.

The engine does not come here: it compiles only the policy that is in force.
"""

from __future__ import annotations

from slidingserve.core.columns import Columns, Decision, Weights
from slidingserve.core.compiled import compiled
from slidingserve.core.settings import Settings
from slidingserve.policies import fcfs, ppas, qoserve, sarathi_edf, slidingserve_paper

_fcfs = fcfs.plan
_sarathi_edf = sarathi_edf.plan
_slidingserve_paper = slidingserve_paper.plan
_qoserve = qoserve.plan
_ppas = ppas.plan

NAMES = ("fcfs", "sarathi_edf", "slidingserve_paper", "qoserve", "ppas")
"""In the order of the ids."""


@compiled
def decide(policy_id: int, columns: Columns, weights: Weights, settings: Settings) -> Decision:
    """One round of the policy with that id."""
    if policy_id == 0:
        return _fcfs(columns, weights, settings)
    if policy_id == 1:
        return _sarathi_edf(columns, weights, settings)
    if policy_id == 2:
        return _slidingserve_paper(columns, weights, settings)
    if policy_id == 3:
        return _qoserve(columns, weights, settings)
    return _ppas(columns, weights, settings)


def policy_id(name: str) -> int:
    """The id of a policy for `decide`. Raises ValueError with the names there are."""
    try:
        return NAMES.index(name)
    except ValueError:
        raise ValueError(
            f"scheduler.policy: {name!r} is unknown; choose one of {', '.join(sorted(NAMES))}"
        ) from None
