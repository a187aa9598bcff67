"""The processes that may act by a decision on the active site, and those that may only finish."""

from __future__ import annotations

import pytest

from cns_backend.sites.decision import ActingProcess, DecisionView, SiteDecision, may_act, may_finish, why_standing_by

BESIDE = (ActingProcess("p", "dc1", 3),)
ELSEWHERE = (ActingProcess("p", "dc2", 3), ActingProcess("q", "dc1", 2))


@pytest.mark.parametrize(
    ("decision", "reachable", "acting", "may"),
    [
        (SiteDecision(), True, 0, False),  # no decision so far
        (SiteDecision("dc1", 3), True, 0, True),
        (SiteDecision("dc2", 3), True, 0, False),
        (SiteDecision("dc1", 3), False, 0, False),  # the other site may have decided otherwise
        (SiteDecision("dc1", 3), False, 3, True),  # as certain as before
        (SiteDecision("dc1", 3, alone=True), False, 0, True),  # the operator's word
        (SiteDecision("dc1", 3, processes=BESIDE), False, 0, True),
        (SiteDecision("dc1", 3, processes=ELSEWHERE), False, 0, False),
        (SiteDecision("dc1", 4), True, 3, False),  # this process begins the new activation
        (SiteDecision("dc2", 4), True, 3, False),
        (SiteDecision("", 4), True, 3, False),
    ],
)
def test_who_may_act(decision: SiteDecision, reachable: bool, acting: int, may: bool) -> None:
    assert may_act(DecisionView(decision, reachable), "dc1", acting) is may


@pytest.mark.parametrize(
    ("decision", "may"),
    [
        (SiteDecision("", 4), True),  # the change waits for this process
        (SiteDecision("", 5), False),
        (SiteDecision("dc2", 4), False),  # the other site took over
        (SiteDecision("dc1", 3), False),
    ],
)
def test_who_may_finish(decision: SiteDecision, may: bool) -> None:
    assert may_finish(DecisionView(decision, reachable=True), 3) is may


def test_a_person_is_told_what_to_do() -> None:
    lost = DecisionView(SiteDecision("dc1", 3), reachable=False)
    assert "cns site activate dc1 --other-site-lost" in why_standing_by(lost, "dc1", "dc2")
    assert (
        why_standing_by(DecisionView(SiteDecision("dc2", 3), reachable=True), "dc1", "dc2")
        == "site dc2 is active, this is dc1"
    )
    assert "cns site activate NAME" in why_standing_by(DecisionView(SiteDecision(), reachable=True), "dc1", "dc2")
