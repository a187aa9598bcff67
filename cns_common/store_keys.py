"""The texts that may be keys in a store. Every driver refuses the others alike, before it asks its database.

Cassandra takes no empty partition key and none above 65,535 bytes; SQLite takes any text. A contract marks its keys by
their types, and `refuse_bad_keys` checks them in each driver. Operations refuse such names first, with AWS's errors.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Sequence as AbstractSequence
from enum import Enum
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from cns_common.errors import RequestError

KEY_CHARS_MAX = 4_096
"""Longer than any name or ARN that the API accepts. A key of four such parts fits Cassandra's limit in UTF-8."""


class KeyRole(Enum):
    NAME = "of a record; never empty"
    OPTIONAL = "of a record, or where a page begins; empty means any, or the first page"


Key = Annotated[str, KeyRole.NAME]
KeyOrEmpty = Annotated[str, KeyRole.OPTIONAL]

Store = TypeVar("Store")
_Check = Callable[[Any], None]


def refuse_bad_keys(contract: type) -> Callable[[type[Store]], type[Store]]:
    """A decorator of drivers: methods of `contract` raise RequestError for a key that no store can have."""

    def decorate(driver: type[Store]) -> type[Store]:
        for name, declared in vars(contract).items():
            if inspect.iscoroutinefunction(declared):
                checks = _checks_of(declared)
                if checks:
                    setattr(driver, name, _checked(getattr(driver, name), checks))
        return driver

    return decorate


def check_key(text: str) -> None:
    if not text:
        raise _refusal("is empty")
    check_key_or_empty(text)


def check_key_or_empty(text: str) -> None:
    if len(text) > KEY_CHARS_MAX:
        raise _refusal(f"is longer than {KEY_CHARS_MAX} characters")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _refusal("is not Unicode") from None


def _refusal(reason: str) -> RequestError:
    """Its code means the same in every service."""
    return RequestError("InvalidParameterValue", f"A name in the request {reason}.")


def _checked(method: Callable[..., Any], checks: Sequence[tuple[int, str, _Check]]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def checked(self: object, *arguments: Any, **named: Any) -> Any:
        for position, name, check in checks:
            check(arguments[position] if position < len(arguments) else named[name])
        return await method(self, *arguments, **named)

    return checked


def _checks_of(declared: Callable[..., Any]) -> list[tuple[int, str, _Check]]:
    hints = get_type_hints(declared, include_extras=True)
    names = list(inspect.signature(declared).parameters)[1:]
    found = [(position, name, _check_of(hints[name])) for position, name in enumerate(names)]
    return [(position, name, check) for position, name, check in found if check is not None]


def _check_of(hint: Any) -> _Check | None:
    """The check of a parameter's keys; None if its type has none."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _CHECKS.get(parts[1]) if isinstance(parts[1], KeyRole) else None
    if origin in (list, AbstractSequence):
        check = _check_of(parts[0])
        return None if check is None else functools.partial(_check_each, check)
    if origin is tuple:
        return _all_of([(position, _check_of(part)) for position, part in enumerate(parts)], _item)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        fields = get_type_hints(hint, include_extras=True)
        return _all_of([(name, _check_of(fields[name])) for name in hint.__struct_fields__], getattr)
    return None


def _all_of(parts: Iterable[tuple[Any, _Check | None]], get: Callable[[Any, Any], Any]) -> _Check | None:
    """The checks of a value's parts together."""
    checks = [(part, check) for part, check in parts if check is not None]

    def check_all(value: Any) -> None:
        for part, check in checks:
            check(get(value, part))

    return check_all if checks else None


def _item(values: Sequence[Any], position: int) -> Any:
    return values[position]


def _check_each(check: _Check, values: Iterable[Any]) -> None:
    for value in values:
        check(value)


_CHECKS: dict[KeyRole, _Check] = {KeyRole.NAME: check_key, KeyRole.OPTIONAL: check_key_or_empty}
