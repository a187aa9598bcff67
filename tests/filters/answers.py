"""The service's answer to a case; None if the message cannot be filtered."""

from __future__ import annotations

from functools import lru_cache

from cns.filters.evaluation import matches
from cns.filters.message_values import MessageValues, attribute_values, body_values
from cns.filters.model import Filter, Scope
from cns.filters.parser import read_filter
from tests.filters.pair_generator import ATTRIBUTES, Case


def service_answer(case: Case) -> bool | None:
    values = values_of(case)
    if values is None:
        return None if case.scope == ATTRIBUTES else False
    return matches(read(case.policy, case.scope), values)


def values_of(case: Case) -> MessageValues | None:
    return attribute_values(case.attributes) if case.scope == ATTRIBUTES else body_values(case.body)


@lru_cache
def read(policy: str, scope: str) -> Filter:
    """Parse a policy, and check that its stored form parses to the same."""
    stored, filter_ = read_filter(policy, Scope(scope))
    assert read_filter(stored, Scope(scope)) == (stored, filter_), policy
    return filter_
