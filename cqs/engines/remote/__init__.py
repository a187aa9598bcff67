"""The remote driver: any engine of the store host, used from another process over its Unix socket.

`METHODS` and `handlers` are the host's half, `RemoteEngine` the caller's. A waiting receive is one call, or keeps a
waiter in the host, which pushes its wake-ups back. After the host restarts, every waiter is woken once and waits anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
    Outcome,
    Page,
    QueueRef,
    Received,
    Rejected,
    Sent,
    Settled,
    Settlement,
    Wakeups,
)
from cqs.engines.long_poll import LocalWaits
from cqs.engines.remote.client_leases import Handed
from cqs.engines.waiters import Sleeper

WOKEN = "engine.woken"

METHODS = {
    "engine.capabilities": Method(tuple[()], Capabilities),
    "engine.send": Method(tuple[QueueRef, list[Entry], int], list[Sent | Rejected]),
    "engine.receive": Method(tuple[QueueRef, int, int, int, str], Received),
    "engine.delete": Method(tuple[QueueRef, list[bytes], int], list[Outcome]),
    "engine.change": Method(tuple[QueueRef, list[Change], int], list[Outcome]),
    "engine.settle": Method(tuple[Settlement, int], Settled),
    "engine.peek": Method(tuple[QueueRef, str, int, int], Page),
    "engine.counts": Method(tuple[QueueRef, int], Counts),
    "engine.purge": Method(tuple[QueueRef, int], None),
    "engine.drop": Method(tuple[QueueRef, int], None),
    "engine.redelay": Method(tuple[QueueRef, int, int], None),
    "engine.maintain": Method(tuple[int, int], int),
    "engine.watch": Method(tuple[QueueRef, int], None),
    "engine.pass_on": Method(tuple[int], None),
    "engine.unwatch": Method(tuple[int, int], None),
    "engine.receive_waiting": Method(tuple[int, QueueRef, int, int, float], Received),
    "engine.stop_waits": Method(tuple[int], None),
}


_forsaking: set[asyncio.Task[None]] = set()


def handlers(engine: Engine, clock: Clock) -> dict[str, Handler]:
    """What the store host answers for `engine`."""
    watches = _Watches(engine)
    waits = _Waits(engine, clock)

    async def capabilities(_: Session) -> Capabilities:
        return engine.capabilities

    return {
        "engine.capabilities": capabilities,
        "engine.send": lambda _, *a: engine.send(*a),
        "engine.receive": lambda _, *a: engine.receive(*a),
        "engine.delete": lambda _, *a: engine.delete(*a),
        "engine.change": lambda _, *a: engine.change(*a),
        "engine.settle": waits.settle,
        "engine.peek": lambda _, *a: engine.peek(*a),
        "engine.counts": lambda _, *a: engine.counts(*a),
        "engine.purge": lambda _, *a: engine.purge(*a),
        "engine.drop": lambda _, *a: engine.drop(*a),
        "engine.redelay": lambda _, *a: engine.redelay(*a),
        "engine.maintain": lambda _, *a: engine.maintain(*a),
        "engine.watch": watches.watch,
        "engine.pass_on": watches.pass_on,
        "engine.unwatch": watches.unwatch,
        "engine.receive_waiting": waits.receive,
        "engine.stop_waits": waits.stop,
    }


def end_session(session: Session) -> None:
    """For `Server.on_close`: a caller's process is gone, and what it was woken for or still holds is for others."""
    for watch in session.state.pop("watches", {}).values():
        watch.end(used=0)
    for waits in session.state.pop("waits", {}).values():
        waits.stop()
    handed = session.state.get("handed")  # kept: a receive may end after its session
    if handed is not None:
        task = asyncio.ensure_future(handed.forsake())
        _forsaking.add(task)
        task.add_done_callback(_forsaking.discard)


class _Watch:
    """The host's half of one far waiter: a task, asleep until the queue has something."""

    def __init__(self, session: Session, wakeups: Wakeups, number: int) -> None:
        self._wakeups = wakeups
        self._pushed = 0
        self._task = asyncio.create_task(self._push(session, number))

    async def _push(self, session: Session, number: int) -> None:
        while await self._wakeups.wait():
            self._pushed += 1
            session.event(WOKEN, number)

    def pass_on(self) -> None:
        self._wakeups.pass_on()

    def end(self, used: int) -> None:
        """The far waiter is gone, having used so many of its wake-ups. The task ends by what is closed: a cancelled one
        leaves garbage that only a collection finds, and one ends with every poll."""
        if self._pushed > used:
            self._wakeups.pass_on()
        self._wakeups.close()


class _Watches:
    """The far waiters of all sessions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def watch(self, session: Session, q: QueueRef, number: int) -> None:
        watches: dict[int, _Watch] = session.state.setdefault("watches", {})
        watches[number] = _Watch(session, self._engine.wakeups(q), number)  # joined before the receive that follows

    async def pass_on(self, session: Session, number: int) -> None:
        watch = session.state.get("watches", {}).get(number)
        if watch is not None:
            watch.pass_on()

    async def unwatch(self, session: Session, number: int, used: int) -> None:
        watch = session.state.get("watches", {}).pop(number, None)
        if watch is not None:
            watch.end(used)


class _Waits:
    """The receives that wait here for far users, by the numbers these have in their sessions, and what they handed."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    async def receive(
        self, session: Session, number: int, q: QueueRef, want: int, lease_ms: int, wait_s: float
    ) -> Received:
        waits: dict[int, LocalWaits] = session.state.setdefault("waits", {})
        if number not in waits:
            waits[number] = LocalWaits(self._engine, self._clock)
            session.state.setdefault("handed", Handed(self._engine, self._clock))
        handed: Handed = session.state["handed"]
        received = await waits[number].receive(q, want, lease_ms, wait_s)
        await handed.hand(q, received, lease_ms)
        return received

    async def settle(self, session: Session, settlement: Settlement, now_ms: int) -> Settled:
        handed: Handed | None = session.state.get("handed")
        if handed is not None:
            handed.answered(settlement)
        return await self._engine.settle(settlement, now_ms)

    async def stop(self, session: Session, number: int) -> None:
        waits = session.state.get("waits", {}).get(number)
        if waits is not None:
            waits.stop()


class RemoteEngine:
    """See `cqs.engines.contract.Engine`."""

    def __init__(self, client: Client, capabilities: Capabilities) -> None:
        self._client = client
        self.capabilities = capabilities
        self._wakeups: dict[int, RemoteWakeups] = {}
        self._next_number = 0
        client.on_event(WOKEN, int, self._woken)
        client.on_connect.append(self._rewatch)

    @classmethod
    async def connect(cls, client: Client) -> RemoteEngine:
        return cls(client, await client.call("engine.capabilities"))

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[Sent | Rejected]:
        sent: list[Sent | Rejected] = await self._client.call("engine.send", q, entries, now_ms)
        return sent

    async def receive(self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str = "") -> Received:
        received: Received = await self._client.call("engine.receive", q, want, visible_at_ms, now_ms, attempt_id)
        return received

    async def delete(self, q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
        outcomes: list[Outcome] = await self._client.call("engine.delete", q, handles, now_ms)
        return outcomes

    async def change(self, q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
        outcomes: list[Outcome] = await self._client.call("engine.change", q, changes, now_ms)
        return outcomes

    async def settle(self, settlement: Settlement, now_ms: int) -> Settled:
        settled: Settled = await self._client.call("engine.settle", settlement, now_ms)
        return settled

    async def peek(self, q: QueueRef, cursor: str, n: int, now_ms: int) -> Page:
        page: Page = await self._client.call("engine.peek", q, cursor, n, now_ms)
        return page

    async def counts(self, q: QueueRef, now_ms: int) -> Counts:
        counts: Counts = await self._client.call("engine.counts", q, now_ms)
        return counts

    async def purge(self, q: QueueRef, now_ms: int) -> None:
        await self._client.call("engine.purge", q, now_ms)

    async def drop(self, q: QueueRef, now_ms: int) -> None:
        await self._client.call("engine.drop", q, now_ms)

    async def redelay(self, q: QueueRef, delay_ms: int, now_ms: int) -> None:
        await self._client.call("engine.redelay", q, delay_ms, now_ms)

    async def maintain(self, budget: int, now_ms: int) -> int:
        done: int = await self._client.call("engine.maintain", budget, now_ms)
        return done

    def wakeups(self, q: QueueRef) -> RemoteWakeups:
        self._next_number += 1
        wakeups = RemoteWakeups(self, q, self._next_number)
        self._wakeups[self._next_number] = wakeups
        if self._client.connected:
            self.post("engine.watch", q, self._next_number)
        return wakeups

    def waits(self) -> RemoteWaits:
        self._next_number += 1
        return RemoteWaits(self._client, self._next_number)

    def post(self, name: str, *arguments: Any) -> None:
        """Call without waiting: what fails with the connection is done again by `_rewatch`."""
        self._client.post(name, *arguments).add_done_callback(_ignore)

    def pass_on(self, number: int) -> None:
        if self._client.connected:
            self.post("engine.pass_on", number)

    def forget(self, number: int, used: int) -> None:
        self._wakeups.pop(number, None)
        if self._client.connected:
            self.post("engine.unwatch", number, used)

    def _woken(self, number: int) -> None:
        wakeups = self._wakeups.get(number)
        if wakeups is not None:
            wakeups.wake()

    def _rewatch(self) -> None:
        for number, wakeups in self._wakeups.items():
            self.post("engine.watch", wakeups.q, number)
            wakeups.used = -1  # this host has not pushed the wake-up that follows
            wakeups.wake()


class RemoteWakeups(Sleeper):
    """A waiting receive whose waiter lives in the store host."""

    __slots__ = ("_engine", "_number", "q", "used")

    def __init__(self, engine: RemoteEngine, q: QueueRef, number: int) -> None:
        super().__init__()
        self._engine = engine
        self._number = number
        self.q = q
        self.used = 0  # wake-ups taken since the host knows of this waiter

    def pass_on(self) -> None:
        self._engine.pass_on(self._number)

    def _awake(self) -> None:
        self.used += 1

    def _leave(self) -> None:
        self._engine.forget(self._number, self.used)


class RemoteWaits:
    """See `cqs.engines.contract.Waits`; one call a receive, however long it waits."""

    def __init__(self, client: Client, number: int) -> None:
        self._client = client
        self._number = number
        self._stopped = False

    async def receive(self, q: QueueRef, want: int, lease_ms: int, wait_s: float) -> Received:
        wait_s = 0.0 if self._stopped else wait_s
        try:
            received: Received = await self._client.call(
                "engine.receive_waiting", self._number, q, want, lease_ms, wait_s
            )
        except OutcomeUnknown:  # the host went away meanwhile: what it had leased for this one comes again
            return Received()
        return received

    def stop(self) -> None:
        self._stopped = True
        if self._client.connected:
            self._client.post("engine.stop_waits", self._number).add_done_callback(_ignore)


def _ignore(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
