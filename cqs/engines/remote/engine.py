"""The remote engine: an engine of the store host, used from another process over the host's Unix socket.

`methods` and `handlers` are the host's half, `RemoteEngine` is the client's. The host serves each of its engines under
the engine's name. A long poll is one call; a `Waiter` is registered in the host, which pushes its wake-ups. After a
reconnect, each waiter is registered again and woken once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown
from cns_common.rpc.rpc import Client, Handler, Method, Session
from cqs.engines.contract import (
    Capabilities,
    Change,
    Counts,
    Engine,
    Entry,
    ExpiredMessage,
    Outcome,
    PeekPage,
    QueueRef,
    ReceiveResult,
    RejectedEntry,
    SentEntry,
    Settlement,
    SettlementResult,
    Waiter,
)
from cqs.engines.long_poll import LocalLongPolls
from cqs.engines.options import EngineOption
from cqs.engines.remote.client_leases import ClientLeases
from cqs.engines.waiters import FutureWaiter

_METHODS: Mapping[str, Method] = {
    "capabilities": Method(tuple[()], Capabilities),
    "send": Method(tuple[QueueRef, list[Entry], int], list[SentEntry | RejectedEntry]),
    "receive": Method(tuple[QueueRef, int, int, int, str], ReceiveResult),
    "delete": Method(tuple[QueueRef, list[bytes], int], list[Outcome]),
    "change": Method(tuple[QueueRef, list[Change], int], list[Outcome]),
    "settle": Method(tuple[Settlement, int], SettlementResult),
    "peek": Method(tuple[QueueRef, str, int, int], PeekPage),
    "counts": Method(tuple[QueueRef, int, bool], Counts),
    "purge": Method(tuple[QueueRef, int], None),
    "drop": Method(tuple[QueueRef, int], None),
    "set_attributes": Method(tuple[QueueRef, int], None),
    "redelay": Method(tuple[QueueRef, int, int], None),
    "maintain": Method(tuple[int, int], int),
    "expired": Method(tuple[int], list[ExpiredMessage]),
    "forget_expired": Method(tuple[list[ExpiredMessage]], None),
    "add_waiter": Method(tuple[QueueRef, int], None),
    "pass_on": Method(tuple[int], None),
    "remove_waiter": Method(tuple[int, int], None),
    "long_poll": Method(tuple[int, QueueRef, int, int, float], ReceiveResult),
    "stop_long_polls": Method(tuple[int], None),
}


def methods(engine_name: str) -> dict[str, Method]:
    """The calls that the store host answers for its engine of this name."""
    return {f"{_prefix(engine_name)}{name}": method for name, method in _METHODS.items()}


def _prefix(engine_name: str) -> str:
    return f"engine.{engine_name}."


def _woken_event(engine_name: str) -> str:
    return f"{_prefix(engine_name)}woken"


def handlers(engine_name: str, engine: Engine, clock: Clock) -> dict[str, Handler]:
    """Answers of the store host to the calls in `methods`."""
    host = _EngineHost(engine_name, engine, clock)

    async def capabilities(_: Session) -> Capabilities:
        return engine.capabilities

    calls: dict[str, Handler] = {
        "capabilities": capabilities,
        "send": lambda _, *a: engine.send(*a),
        "receive": lambda _, *a: engine.receive(*a),
        "delete": lambda _, *a: engine.delete(*a),
        "change": lambda _, *a: engine.change(*a),
        "settle": host.settle,
        "peek": lambda _, *a: engine.peek(*a),
        "counts": lambda _, q, now_ms, oldest: engine.counts(q, now_ms, oldest=oldest),
        "purge": lambda _, *a: engine.purge(*a),
        "drop": lambda _, *a: engine.drop(*a),
        "set_attributes": lambda _, *a: engine.set_attributes(*a),
        "redelay": lambda _, *a: engine.redelay(*a),
        "maintain": lambda _, *a: engine.maintain(*a),
        "expired": lambda _, *a: engine.expired(*a),
        "forget_expired": lambda _, *a: engine.forget_expired(*a),
        "add_waiter": host.add_waiter,
        "pass_on": host.pass_on,
        "remove_waiter": host.remove_waiter,
        "long_poll": host.long_poll,
        "stop_long_polls": host.stop_long_polls,
    }
    return {f"{_prefix(engine_name)}{name}": handler for name, handler in calls.items()}


def end_session(session: Session) -> None:
    """For `Server.on_close`: pass on the wake-ups and release the leases of a client whose connection is lost."""
    for client in session.state.values():
        if isinstance(client, _ClientState):
            client.end()


_release_tasks: set[asyncio.Task[None]] = set()


class _HostWaiter:
    """The host's half of a client's waiter: a task that pushes each wake-up."""

    def __init__(self, session: Session, event: str, waiter: Waiter, number: int) -> None:
        self._waiter = waiter
        self._pushed = 0
        self._task = asyncio.create_task(self._push(session, event, number))

    async def _push(self, session: Session, event: str, number: int) -> None:
        while await self._waiter.wait():
            self._pushed += 1
            session.event(event, number)

    def pass_on(self) -> None:
        self._waiter.pass_on()

    def end(self, used: int) -> None:
        """Close the waiter, of whose wake-ups the client used `used`. Closing it ends the task: to cancel the task
        would leave a reference cycle for the garbage collector at the end of each poll."""
        if self._pushed > used:
            self._waiter.pass_on()
        self._waiter.close()


class _ClientState:
    """A client's waiters and long polls on one engine, by the client's numbers, and the leases it was given."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self.waiters: dict[int, _HostWaiter] = {}
        self.long_polls: dict[int, LocalLongPolls] = {}
        self.leases = ClientLeases(engine, clock)

    def end(self) -> None:
        for waiter in self.waiters.values():
            waiter.end(used=0)
        self.waiters.clear()
        for polls in self.long_polls.values():
            polls.stop()
        task = asyncio.ensure_future(self.leases.release_all())  # a receive that ends later releases its own leases
        _release_tasks.add(task)
        task.add_done_callback(_release_tasks.discard)


class _EngineHost:
    """The handlers that keep state for a client between calls."""

    def __init__(self, engine_name: str, engine: Engine, clock: Clock) -> None:
        self._key = _prefix(engine_name)
        self._event = _woken_event(engine_name)
        self._engine = engine
        self._clock = clock

    def _client(self, session: Session) -> _ClientState:
        client: _ClientState | None = session.state.get(self._key)
        if client is None:
            client = session.state[self._key] = _ClientState(self._engine, self._clock)
        return client

    async def add_waiter(self, session: Session, q: QueueRef, number: int) -> None:
        waiter = self._engine.waiter(q)  # registered before the client's next receive
        self._client(session).waiters[number] = _HostWaiter(session, self._event, waiter, number)

    async def pass_on(self, session: Session, number: int) -> None:
        waiter = self._client(session).waiters.get(number)
        if waiter is not None:
            waiter.pass_on()

    async def remove_waiter(self, session: Session, number: int, used: int) -> None:
        waiter = self._client(session).waiters.pop(number, None)
        if waiter is not None:
            waiter.end(used)

    async def long_poll(
        self, session: Session, number: int, q: QueueRef, want: int, lease_ms: int, wait_s: float
    ) -> ReceiveResult:
        client = self._client(session)
        polls = client.long_polls.get(number)
        if polls is None:
            polls = client.long_polls[number] = LocalLongPolls(self._engine, self._clock)
        received = await polls.receive(q, want, lease_ms, wait_s)
        await client.leases.record(q, received, lease_ms)
        return received

    async def stop_long_polls(self, session: Session, number: int) -> None:
        polls = self._client(session).long_polls.get(number)
        if polls is not None:
            polls.stop()

    async def settle(self, session: Session, settlement: Settlement, now_ms: int) -> SettlementResult:
        self._client(session).leases.forget_settled(settlement)
        return await self._engine.settle(settlement, now_ms)


class RemoteEngine:
    """See `cqs.engines.contract.Engine`."""

    def __init__(self, client: Client, engine_name: str, capabilities: Capabilities) -> None:
        self._client = client
        self._prefix = _prefix(engine_name)
        self.capabilities = capabilities
        self.options: Mapping[str, EngineOption] = {}  # no engine of the embedded form has options
        self._waiters: dict[int, RemoteWaiter] = {}
        self._next_number = 0
        client.on_event(_woken_event(engine_name), int, self._on_woken)
        client.on_connect.append(self._register_again)

    @classmethod
    async def connect(cls, client: Client, engine_name: str) -> RemoteEngine:
        return cls(client, engine_name, await client.call(f"{_prefix(engine_name)}capabilities"))

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        sent: list[SentEntry | RejectedEntry] = await self.call("send", q, entries, now_ms)
        return sent

    async def receive(
        self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str = ""
    ) -> ReceiveResult:
        received: ReceiveResult = await self.call("receive", q, want, visible_at_ms, now_ms, attempt_id)
        return received

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        outcomes: list[Outcome] = await self.call("delete", q, handles, now_ms)
        return outcomes

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        outcomes: list[Outcome] = await self.call("change", q, changes, now_ms)
        return outcomes

    async def settle(self, settlement: Settlement, now_ms: int) -> SettlementResult:
        settled: SettlementResult = await self.call("settle", settlement, now_ms)
        return settled

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
        page: PeekPage = await self.call("peek", q, cursor, n, now_ms)
        return page

    async def counts(self, q: QueueRef, now_ms: int, *, oldest: bool = False) -> Counts:
        counts: Counts = await self.call("counts", q, now_ms, oldest)
        return counts

    async def purge(self, q: QueueRef, now_ms: int) -> None:
        await self.call("purge", q, now_ms)

    async def drop(self, q: QueueRef, now_ms: int) -> None:
        await self.call("drop", q, now_ms)

    async def set_attributes(self, q: QueueRef, now_ms: int) -> None:
        await self.call("set_attributes", q, now_ms)

    async def redelay(self, q: QueueRef, delay_ms: int, now_ms: int) -> None:
        await self.call("redelay", q, delay_ms, now_ms)

    async def maintain(self, budget: int, now_ms: int) -> int:
        done: int = await self.call("maintain", budget, now_ms)
        return done

    async def expired(self, n: int) -> list[ExpiredMessage]:
        messages: list[ExpiredMessage] = await self.call("expired", n)
        return messages

    async def forget_expired(self, messages: Sequence[ExpiredMessage]) -> None:
        await self.call("forget_expired", messages)

    def waiter(self, q: QueueRef) -> RemoteWaiter:
        self._next_number += 1
        waiter = RemoteWaiter(self, q, self._next_number)
        self._waiters[self._next_number] = waiter
        self.post("add_waiter", q, self._next_number)
        return waiter

    def long_polls(self) -> RemoteLongPolls:
        self._next_number += 1
        return RemoteLongPolls(self, self._next_number)

    def call(self, name: str, *arguments: Any) -> Coroutine[Any, Any, Any]:
        return self._client.call(self._prefix + name, *arguments)

    def post(self, name: str, *arguments: Any) -> None:
        """Call without waiting for the answer; not at all while disconnected, since a reconnect registers anew."""
        if self._client.connected:
            self._client.post(self._prefix + name, *arguments).add_done_callback(_ignore)

    def remove_waiter(self, number: int, used: int) -> None:
        self._waiters.pop(number, None)
        self.post("remove_waiter", number, used)

    def _on_woken(self, number: int) -> None:
        waiter = self._waiters.get(number)
        if waiter is not None:
            waiter.wake()

    def _register_again(self) -> None:
        for number, waiter in self._waiters.items():
            self.post("add_waiter", waiter.q, number)
            waiter.used = -1  # the host that is connected now did not push the wake-up that follows
            waiter.wake()


class RemoteWaiter(FutureWaiter):
    """A waiter that is registered in the store host."""

    __slots__ = ("_engine", "_number", "q", "used")

    def __init__(self, engine: RemoteEngine, q: QueueRef, number: int) -> None:
        super().__init__()
        self._engine = engine
        self._number = number
        self.q = q
        self.used = 0  # wake-ups used since the waiter was registered in the host

    def pass_on(self) -> None:
        self._engine.post("pass_on", self._number)

    def _on_wake(self) -> None:
        self.used += 1

    def _on_close(self) -> None:
        self._engine.remove_waiter(self._number, self.used)


class RemoteLongPolls:
    """See `cqs.engines.contract.LongPolls`. A receive is one call, however long it waits."""

    def __init__(self, engine: RemoteEngine, number: int) -> None:
        self._engine = engine
        self._number = number
        self._stopped = False

    async def receive(self, q: QueueRef, want: int, lease_ms: int, wait_s: float) -> ReceiveResult:
        wait_s = 0.0 if self._stopped else wait_s
        try:
            received: ReceiveResult = await self._engine.call("long_poll", self._number, q, want, lease_ms, wait_s)
        except OutcomeUnknown:  # the connection was lost: the host releases what it had leased for this receive
            return ReceiveResult()
        return received

    def stop(self) -> None:
        self._stopped = True
        self._engine.post("stop_long_polls", self._number)


def _ignore(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
