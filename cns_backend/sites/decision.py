"""The stored decision on the active site, and the rules by which a process may act on it: no I/O."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class ActingProcess(NamedTuple):
    process: str
    site: str
    epoch: int
    """The epoch of the decision by which the process acts."""


class SiteDecision(NamedTuple):
    """The state that `cns site activate` changes."""

    active: str = ""
    """The active site; empty before the first activation, and while a change waits for processes to end their work."""
    epoch: int = 0
    alone: bool = False
    """Whether the site was activated while the other one was unreachable, and the other one was not reached since."""
    processes: tuple[ActingProcess, ...] = ()


class DecisionView(NamedTuple):
    """The stored decision and the reachability of the other site, as a process sees them at one moment."""

    decision: SiteDecision
    reachable: bool
    """Whether the other site answers."""


class SiteStatus(msgspec.Struct, frozen=True, kw_only=True):
    """For `/health`."""

    site: str
    other: str
    active: str
    epoch: int
    acting: bool
    """Whether this process works."""
    other_reachable: bool
    activated_alone: bool


def may_act(view: DecisionView, site: str, acting_epoch: int) -> bool:
    """Whether a process of `site` may act by this decision. It is certain of `acting_epoch` (0: of none).

    While the other site does not answer, a newer decision may exist there. Then a process may act if it was certain of
    this decision, if another process of its site acts by it, or if the operator said that the other site is lost."""
    decision = view.decision
    if decision.active != site or not decision.epoch or acting_epoch not in (0, decision.epoch):
        return False
    beside = any((one.site, one.epoch) == (site, decision.epoch) for one in decision.processes)
    return view.reachable or acting_epoch == decision.epoch or decision.alone or beside


def may_finish(view: DecisionView, acting_epoch: int) -> bool:
    """Whether a process may finish the work that it began: a change of sites waits for it."""
    return not view.decision.active and view.decision.epoch == acting_epoch + 1


def why_standing_by(view: DecisionView, site: str, other: str) -> str:
    """Why a process of `site` accepts no calls, in words."""
    decision = view.decision
    if not decision.epoch:
        return "no site was activated yet: run `cns site activate NAME`"
    if not decision.active:
        return "no site is active: a change of sites is under way"
    if decision.active != site:
        return f"site {decision.active} is active, this is {site}"
    return (
        f"site {site} was active, but {other} does not answer and may have taken over:"
        f" run `cns site activate {site} --other-site-lost` if it serves no clients"
    )
