"""Calls a store in another process: its contract's async methods become calls, their type hints the frames' types.

A contract is a Protocol whose async methods take and return values that msgspec can encode. `methods_of` reads it once
at start, `handlers_of` makes the handlers of an object that implements it, and `remote` makes a proxy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import GenericAlias
from typing import Any, Protocol, TypeVar, get_args, get_type_hints

from cns_common.rpc.rpc import Handler, Method, RpcClient, Server

CHANGED = "changed"
Contract = TypeVar("Contract")
"""A Protocol."""


class ChangeSource(Protocol):
    """An optional part of a contract: callbacks that get the key of each record that any process changed."""

    changed: list[Callable[[Any], None]]


def methods_of(contract: Any, prefix: str) -> dict[str, Method]:
    """The calls `prefix.<method>` of a contract."""
    return {f"{prefix}.{name}": _method(function) for name, function in _functions(contract).items()}


def handlers_of(contract: Any, prefix: str, implementation: object) -> dict[str, Handler]:
    """The handlers of a contract's calls, which `implementation` answers."""
    return {f"{prefix}.{name}": _handler(getattr(implementation, name)) for name in _functions(contract)}


def announce(prefix: str, source: ChangeSource, server: Server) -> None:
    """Send every change to all connected processes."""
    source.changed.append(lambda key: server.broadcast(f"{prefix}.{CHANGED}", key))


def remote(contract: type[Contract], prefix: str, client: RpcClient) -> Contract:
    """A proxy of the contract whose calls the other end of `client` answers."""
    calls = {name: _call(client, f"{prefix}.{name}", function) for name, function in _functions(contract).items()}
    proxy: Any = type(f"Remote{contract.__name__}", (), calls)()
    changed_type = get_type_hints(contract).get(CHANGED)
    if changed_type is not None:
        proxy.changed = []
        ((key_type,), _) = get_args(get_args(changed_type)[0])  # list[Callable[[Key], None]]
        client.on_event(f"{prefix}.{CHANGED}", key_type, lambda key: _fire(proxy, key))
    result: Contract = proxy
    return result


def _fire(proxy: ChangeSource, key: Any) -> None:
    for callback in proxy.changed:
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


def _call(client: RpcClient, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    async def call(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        return await client.call(name, *list(bound.arguments.values())[1:])

    return call
