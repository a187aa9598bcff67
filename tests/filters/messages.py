"""Writes random messages that nearly match a policy."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from tests.filters.pools import (
    ADDRESSES,
    KEYS,
    MALFORMED_ARRAYS,
    MALFORMED_NUMBERS,
    NUMBERS_OF_MESSAGES,
    STRINGS,
    Number,
    string,
    swapped,
    written,
)

PLANTED = 0.6
MALFORMED = 0.02
NOT_OBJECTS = ("", "red", "[]", '[{"a": 1}]', '"a"', "5", "null", '{"a": 1', '{"a": NaN}')


class MessageWriter:
    def __init__(self, random: Random, leaves: list[tuple[str, list[Any]]]) -> None:
        self._random = random
        self._leaves = leaves

    def body(self) -> str:
        if self._random.random() < 0.01:
            return self._random.choice(NOT_OBJECTS)
        body = self._object(0)
        for path, conditions in self._leaves:
            while self._random.random() < PLANTED:
                self._plant(body, path.split("."), self._wanted(conditions))
        return written(body)

    def attributes(self) -> dict[str, tuple[str, str]]:
        """Message attributes with valid names and non-empty values."""
        random = self._random
        values = {key: self._scalar() for key in random.sample(KEYS, random.randint(0, 3))}
        values |= {path: self._wanted(wanted) for path, wanted in self._leaves if random.random() < PLANTED}
        return {name: self._typed(value) for name, value in values.items() if name.isascii()}

    def _typed(self, value: Any) -> tuple[str, str]:
        random = self._random
        label = random.choice(("", "", "", ".label"))
        if random.random() < MALFORMED:
            return random.choice(
                (("Number", random.choice(MALFORMED_NUMBERS)), ("String.Array", random.choice(MALFORMED_ARRAYS)))
            )
        if random.random() < 0.05:
            return f"Binary{label}", "cmVk"
        if isinstance(value, Number) and random.random() < 0.8:
            return f"Number{label}", value.spelling
        if isinstance(value, str) and value and random.random() < 0.6:
            return f"String{label}", value
        return f"String.Array{label}", written(value if random.random() < 0.1 else self._listed(value))

    def _object(self, depth: int) -> dict[str, Any]:
        return {key: self._member(depth) for key in self._random.sample(KEYS, self._random.randint(0, 3))}

    def _member(self, depth: int) -> Any:
        chance = self._random.random()
        if depth < 3 and chance < 0.25:
            return self._object(depth + 1)
        if depth < 3 and chance < 0.45:
            return [self._member(depth + 1) for _ in range(self._random.randint(0, 3))]
        return self._scalar()

    def _scalar(self) -> Any:
        random = self._random
        pool = random.choices((STRINGS, NUMBERS_OF_MESSAGES, (True, False, None), ADDRESSES), weights=(45, 30, 15, 10))[
            0
        ]
        if pool is STRINGS:
            return string(random)
        value = random.choice(pool)
        return Number(str(value)) if pool is NUMBERS_OF_MESSAGES else value

    def _listed(self, value: Any) -> list[Any]:
        """An array with the value among others, or an empty array."""
        elements = [value, *(self._scalar() for _ in range(self._random.randint(0, 2)))]
        self._random.shuffle(elements)
        return elements if self._random.random() < 0.95 else []

    def _plant(self, into: dict[str, Any], keys: list[str], value: Any) -> None:
        """Put the value at a path. Keys may be joined by dots; enters or extends arrays of objects on the path."""
        random = self._random
        count = random.choices((1, 2), weights=(9, 1))[0] if len(keys) > 1 else 1
        key, rest = ".".join(keys[:count]), keys[count:]
        if not rest:
            into[key] = random.choices(
                (value, self._listed(value), [[value], *self._listed(self._member(1))]), (16, 4, 1)
            )[0]
            return
        member = into.get(key)
        if isinstance(member, list):
            inside = next((each for each in member if isinstance(each, dict) and random.random() < 0.5), None)
            if inside is None:
                inside = {}
                member.insert(random.randint(0, len(member)), inside)
        elif isinstance(member, dict):
            inside = member
        else:
            inside = {}
            into[key] = inside if random.random() < 0.5 else [inside]
        self._plant(inside, rest, value)

    def _wanted(self, conditions: list[Any]) -> Any:
        """A value that probably meets one of the conditions."""
        condition = self._random.choice(conditions)
        if not isinstance(condition, dict):
            near = ADDRESSES if condition in ADDRESSES else (condition,)
            return self._random.choice((condition, self._random.choice(near)))
        [(operator, operand)] = condition.items()
        if operator == "anything-but":
            return self._scalar() if self._random.random() < 0.5 else self._excluded(operand)
        if operator == "numeric":
            return self._random.choice([each for each in operand if isinstance(each, Number)])
        if operator == "cidr":
            return self._random.choice(ADDRESSES)
        return self._text(operator, operand)

    def _excluded(self, operand: Any) -> Any:
        """A value that meets a condition of anything-but."""
        if isinstance(operand, dict):
            [(operator, texts)] = operand.items()
            return self._text(operator, self._one_of(texts))
        return self._one_of(operand)

    def _text(self, operator: str, operand: Any) -> Any:
        random = self._random
        if isinstance(operand, dict):
            operand = swapped(random, operand["equals-ignore-case"])
        if operator == "prefix":
            return self._nearly(operand + string(random))
        if operator == "suffix":
            return self._nearly(string(random) + operand)
        if operator == "equals-ignore-case":
            return swapped(random, operand)
        if operator == "wildcard":
            filling = random.choice(("", string(random)))
            return self._nearly(re.sub(r"\\(.)|\*", lambda found: found[1] or filling, operand))
        return self._scalar()

    def _nearly(self, text: str) -> str:
        """The text, sometimes without a character."""
        gap = self._random.randrange(3 * len(text) + 1)
        return text[:gap] + text[gap + 1 :]

    def _one_of(self, value: Any) -> Any:
        return self._random.choice(value) if isinstance(value, list) else value
