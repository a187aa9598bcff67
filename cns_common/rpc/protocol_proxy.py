"""A store's contract used across processes: its async methods become calls, their type hints the frames' types.

A contract is a Protocol whose async methods take and return what msgspec can encode. `methods_of` reads it once at
start, `handlers_of` answers for an object that keeps it, and `remote` makes an object that keeps it from afar.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import GenericAlias
from typing import Any, Protocol, TypeVar, get_args, get_type_hints

from cns_common.rpc.rpc import Client, Handler, Method, Server

CHANGED = "changed"
Contract = TypeVar("Contract")
"""A Protocol."""


class ChangeSource(Protocol):
    """A contract may have this: what to call with the key of a record that anybody changed."""

    changed: list[Callable[[Any], None]]


def methods_of(contract: Any, prefix: str) -> dict[str, Method]:
    """The calls `prefix.<method>` of a contract."""
    return {f"{prefix}.{name}": _method(function) for name, function in _functions(contract).items()}


def handlers_of(contract: Any, prefix: str, keeper: object) -> dict[str, Handler]:
    """How `keeper` answers the calls of a contract it keeps."""
    return {f"{prefix}.{name}": _handler(getattr(keeper, name)) for name in _functions(contract)}


def announce(prefix: str, keeper: ChangeSource, server: Server) -> None:
    """Tell every process on the other side what changes."""
    keeper.changed.append(lambda key: server.broadcast(f"{prefix}.{CHANGED}", key))


def remote(contract: type[Contract], prefix: str, client: Client) -> Contract:
    """Make an object whose calls the other end of `client` answers."""
    calls = {name: _call(client, f"{prefix}.{name}", function) for name, function in _functions(contract).items()}
    kept: Any = type(f"Remote{contract.__name__}", (), calls)()
    changed_type = get_type_hints(contract).get(CHANGED)
    if changed_type is not None:
        kept.changed = []
        ((key_type,), _) = get_args(get_args(changed_type)[0])  # list[Callable[[Key], None]]
        client.on_event(f"{prefix}.{CHANGED}", key_type, lambda key: _fire(kept, key))
    result: Contract = kept
    return result


def _fire(kept: ChangeSource, key: Any) -> None:
    for callback in kept.changed:
        callback(key)


def _functions(contract: Any) -> dict[str, Callable[..., Any]]:
    return {name: value for name, value in vars(contract).items() if inspect.iscoroutinefunction(value)}


def _method(function: Callable[..., Any]) -> Method:
    hints = get_type_hints(function)
    result = hints.pop("return")
    arguments = tuple(hints[name] for name in list(inspect.signature(function).parameters)[1:])
    return Method(GenericAlias(tuple, arguments), result)


def _handler(bound: Handler) -> Handler:
    return lambda _session, *arguments: bound(*arguments)


def _call(client: Client, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    async def call(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        return await client.call(name, *list(bound.arguments.values())[1:])

    return call
