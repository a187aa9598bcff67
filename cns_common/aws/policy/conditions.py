"""The Condition element: operators over condition keys, with quantifiers and rules for absent keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from cns_common.aws.policy.operators import OPERATORS, TRUTH, Operator, Test
from cns_common.aws.policy.parser import Facts, PolicyError, Template, template

_IF_EXISTS = "IfExists"


class Quantifier(Enum):
    """The match of a key with several values; without a quantifier such a key never matches."""

    NONE = ""
    ANY = "ForAnyValue"
    ALL = "ForAllValues"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One operator over one key. The policy's values are ORed, or NORed when the operator is negated."""

    key: str
    operator: Operator
    quantifier: Quantifier
    if_exists: bool
    tests: tuple[Test, ...]
    templates: tuple[Template, ...]  # values with variables; their tests are made for each request

    def holds(self, facts: Facts) -> bool:
        found = facts.get(self.key, [])
        if found == []:
            return self._holds_when_absent()
        if self.quantifier is Quantifier.NONE and not isinstance(found, str):
            return False
        tests = [*self.tests, *(self.operator.test(each.resolve(facts)) for each in self.templates)]
        values = [found] if isinstance(found, str) else found
        verdicts = (any(test(value) for test in tests) != self.operator.negated for value in values)
        return all(verdicts) if self.quantifier is Quantifier.ALL else any(verdicts)

    def _holds_when_absent(self) -> bool:
        if self.if_exists or self.quantifier is Quantifier.ALL:
            return True
        return self.operator.negated and self.quantifier is Quantifier.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class NullCondition:
    """`Null`: whether the key is absent."""

    key: str
    wanted: frozenset[bool]

    def holds(self, facts: Facts) -> bool:
        return (facts.get(self.key, []) == []) in self.wanted


AnyCondition = Condition | NullCondition


def conditions(element: object, *, variables: bool) -> tuple[AnyCondition, ...]:
    """The conditions of a statement, all of which must hold. Raises PolicyError."""
    found: list[AnyCondition] = []
    for name, keys in _mapping(element, "Condition").items():
        for key, values in _mapping(keys, f"Condition {name}").items():
            found.append(_condition(name, key.lower(), _values(values, key), variables))
    return tuple(found)


def _condition(name: str, key: str, values: Sequence[str], variables: bool) -> AnyCondition:
    if name == "Null":
        if not all(value.lower() in TRUTH for value in values):
            raise PolicyError("Null must be true or false")
        return NullCondition(key=key, wanted=frozenset(TRUTH[value.lower()] for value in values))
    prefix, colon, rest = name.partition(":")
    bare = (rest if colon else name).removesuffix(_IF_EXISTS)
    if bare not in OPERATORS or (colon and prefix not in (Quantifier.ANY.value, Quantifier.ALL.value)):
        raise PolicyError(f"Invalid condition operator: {name}")
    chosen = OPERATORS[bare]
    templates = [template(value, variables=variables and chosen.variables) for value in values]
    return Condition(
        key=key,
        operator=chosen,
        quantifier=Quantifier(prefix if colon else ""),
        if_exists=name.endswith(_IF_EXISTS),
        tests=tuple(chosen.test(each.resolve({})) for each in templates if each.constant),
        templates=tuple(each for each in templates if not each.constant),
    )


def _mapping(element: object, name: str) -> Mapping[str, object]:
    if not isinstance(element, dict):
        raise PolicyError(f"{name} must be an object")
    return element


def _values(element: object, key: str) -> list[str]:
    values = element if isinstance(element, list) else [element]
    return [_value(value, key) for value in values]


def _value(value: object, key: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise PolicyError(f"Condition values of {key} must be strings")
