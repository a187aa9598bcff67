"""The contract of senders, and the sender of each kind of request for a thread of the delivery pool."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from cns.endpoints.outcome import Outcome

_Kind = TypeVar("_Kind", contravariant=True)


class Request(msgspec.Struct, frozen=True):
    """One attempt, for the sender of its class."""


class Sender(Protocol[_Kind]):
    async def send(self, request: _Kind) -> Outcome: ...

    async def close(self) -> None: ...


class Senders:
    def __init__(self, senders: Mapping[type[Request], Sender[Any]]) -> None:
        self._senders = senders

    def send(self, request: Request) -> Coroutine[Any, Any, Outcome]:
        return self._senders[type(request)].send(request)

    async def close(self) -> None:
        for sender in self._senders.values():
            await sender.close()
