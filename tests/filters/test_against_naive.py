"""`cns.filters` answers as the naive evaluator does, on pairs generated near to each other."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.filters import naive
from tests.filters.answers import service_answer
from tests.filters.pair_generator import ATTRIBUTES, BODY, Case, cases
from tests.filters.policies import OPERATORS
from tests.marks import examples

SEED = 14
PAIRS_A_SCOPE = examples(11_000)
BOTH_OUTCOMES_MIN = examples(150)


def naive_answer(case: Case) -> bool | None:
    if case.scope == BODY:
        return naive.body_passes(case.policy, case.body)
    try:
        return naive.attributes_pass(case.policy, case.attributes)
    except naive.Malformed:
        return None


@pytest.fixture(scope="module", params=[ATTRIBUTES, BODY])
def answered(request: pytest.FixtureRequest) -> list[tuple[Case, bool | None]]:
    return [(case, naive_answer(case)) for case in cases(SEED, PAIRS_A_SCOPE, request.param)]


def test_every_pair_is_answered_alike(answered: list[tuple[Case, bool | None]]) -> None:
    for case, naives in answered:
        assert service_answer(case) == naives, case.describe()


def test_every_operator_is_met_and_missed(answered: list[tuple[Case, bool | None]]) -> None:
    outcomes = Counter((operator, naives) for case, naives in answered for operator in case.operators)
    operators = [each for each in OPERATORS if each != "nested" or answered[0][0].scope == BODY]
    assert {operator for operator, _ in outcomes} == set(operators)
    assert min(outcomes[operator, met] for operator in operators for met in (True, False)) >= BOTH_OUTCOMES_MIN
