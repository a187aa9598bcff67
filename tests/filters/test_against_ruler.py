"""`cns.filters` agrees with AWS's open rule engine, except for the pairs of `ruler_exceptions`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from tests.filters.answers import service_answer
from tests.filters.pair_generator import BODY, Case, cases
from tests.filters.policies import OPERATORS
from tests.filters.ruler import engine_answers, engine_answers_singly
from tests.filters.ruler_exceptions import KINDS, NO_OBJECT, why_not

SEED = 12
PAIRS = 26_000
PAIRS_BOTH_HAVE_MIN = 20_000
BOTH_OUTCOMES_MIN = 150
CONTRADICTIONS_MAX = 20
EXAMPLES = (
    (NO_OBJECT, '{"a": [1]}', '[{"a": 1}]', False),
    ("a key twice", '{"a": ["x"], "$or": [{"a": ["y"]}, {"b": ["y"]}]}', '{"a": "y"}', False),
    ("absent before chosen", '{"n": {"a": [{"exists": false}], "b": [1]}}', '{"n": [{"a": 1}, {"b": 1}]}', True),
    ("around an array", '{"n.a": [1], "n.b": [1]}', '{"n.b": 1, "n": [{"a": 1}, {"b": 2}]}', True),
    ("address of another family", '{"a": [{"cidr": "::/0"}]}', '{"a": "10.0.0.5"}', False),
    ("another spelling of an address", '{"a": ["2001:db8::1"]}', '{"a": "2001:DB8:0::1"}', False),
    ("a quotation mark at the end", '{"a": [{"prefix": "x\\""}]}', '{"a": "x"}', False),
    ("letters of many forms", '{"a": [{"equals-ignore-case": "STRASSE"}]}', '{"a": "straße"}', True),
    ("a number and a network", '{"a": [{"cidr": "0.0.0.0/0"}]}', '{"a": 15}', False),
    ("more than five decimals", '{"a": [0.3]}', '{"a": 0.300009}', True),
    ("a number that is no double", '{"a": [{"numeric": ["<", 0]}]}', '{"a": -12345678901234567890}', True),
)


@dataclass(frozen=True, slots=True)
class AnsweredCase:
    case: Case
    ours: bool | None
    engines: bool | str
    why_not: str | None


@pytest.fixture(scope="module")
def answered() -> list[AnsweredCase]:
    made = list(cases(SEED, PAIRS, BODY))
    return [
        AnsweredCase(case, service_answer(case), engines, why_not(case))
        for case, engines in zip(made, engine_answers(made), strict=True)
    ]


@pytest.mark.spec("filter-op.event-ruler")
def test_every_pair_is_answered_alike(answered: list[AnsweredCase]) -> None:
    both_have = [each for each in answered if each.why_not is None]
    assert len(both_have) >= PAIRS_BOTH_HAVE_MIN
    differing = [each for each in both_have if each.ours != each.engines]
    singly = engine_answers_singly([each.case for each in differing])
    for each, engines in zip(differing, singly, strict=True):
        assert each.ours == engines, (
            f"{each.case.describe()}\nours: {each.ours}, the engine's: {each.engines}, {engines}"
        )
    assert len(differing) <= CONTRADICTIONS_MAX  # contradictions of the engine with itself


def test_every_operator_is_met_and_missed(answered: list[AnsweredCase]) -> None:
    outcomes = Counter(
        (operator, each.engines) for each in answered if each.why_not is None for operator in each.case.operators
    )
    assert {operator for operator, _ in outcomes} == set(OPERATORS)
    assert min(outcomes[operator, met] for operator in OPERATORS for met in (True, False)) >= BOTH_OUTCOMES_MIN


@pytest.mark.parametrize(("kind", "policy", "body", "ours"), EXAMPLES, ids=[example[0] for example in EXAMPLES])
def test_what_is_passed_over_is_answered_otherwise(kind: str, policy: str, body: str, ours: bool) -> None:
    case = Case(policy=policy, scope=BODY, attributes={}, body=body, operators=frozenset())
    assert why_not(case) == kind
    assert service_answer(case) is ours
    assert engine_answers([case]) != [ours]


def test_each_kind_has_an_example() -> None:
    assert {example[0] for example in EXAMPLES} == {NO_OBJECT, *KINDS}
