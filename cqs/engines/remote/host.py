"""The store host's half of the remote engine: answers to calls; waiters, long polls and leases of each client."""

from __future__ import annotations

import asyncio

from cns_common.clock import Clock
from cns_common.rpc.rpc import Handler, RpcSession
from cqs.engines.contract import Capabilities, Engine, QueueRef, ReceiveResult, Settlement, SettlementResult, Waiter
from cqs.engines.long_poll import LocalLongPolls
from cqs.engines.remote.client_leases import ClientLeases
from cqs.engines.remote.protocol import prefix, woken_event


def handlers(engine_name: str, engine: Engine, clock: Clock) -> dict[str, Handler]:
    """Answers of the store host to the calls in `methods`."""
    host = _EngineHost(engine_name, engine, clock)

    async def capabilities(_: RpcSession) -> Capabilities:
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
    return {f"{prefix(engine_name)}{name}": handler for name, handler in calls.items()}


def end_session(session: RpcSession) -> None:
    """For `Server.on_close`: pass on the wake-ups and release the leases of a client whose connection is lost."""
    for client in session.state.values():
        if isinstance(client, _ClientState):
            client.end()


_release_tasks: set[asyncio.Task[None]] = set()


class _HostWaiter:
    """The host's half of a client's waiter: a task that pushes each wake-up."""

    def __init__(self, session: RpcSession, event: str, waiter: Waiter, number: int) -> None:
        self._waiter = waiter
        self._pushed = 0
        self._task = asyncio.create_task(self._push(session, event, number))

    async def _push(self, session: RpcSession, event: str, number: int) -> None:
        while await self._waiter.wait():
            self._pushed += 1
            session.event(event, number)

    def pass_on(self) -> None:
        self._waiter.pass_on()

    def end(self, used: int) -> None:
        """Close the waiter; the client used `used` of its wake-ups. Closing it ends the task: to cancel the task would
        leave a reference cycle for the garbage collector at the end of each poll."""
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
        self._key = prefix(engine_name)
        self._event = woken_event(engine_name)
        self._engine = engine
        self._clock = clock

    def _client(self, session: RpcSession) -> _ClientState:
        client: _ClientState | None = session.state.get(self._key)
        if client is None:
            client = session.state[self._key] = _ClientState(self._engine, self._clock)
        return client

    async def add_waiter(self, session: RpcSession, q: QueueRef, number: int) -> None:
        waiter = self._engine.waiter(q)  # registered before the client's next receive
        self._client(session).waiters[number] = _HostWaiter(session, self._event, waiter, number)

    async def pass_on(self, session: RpcSession, number: int) -> None:
        waiter = self._client(session).waiters.get(number)
        if waiter is not None:
            waiter.pass_on()

    async def remove_waiter(self, session: RpcSession, number: int, used: int) -> None:
        waiter = self._client(session).waiters.pop(number, None)
        if waiter is not None:
            waiter.end(used)

    async def long_poll(
        self, session: RpcSession, number: int, q: QueueRef, want: int, lease_ms: int, wait_s: float
    ) -> ReceiveResult:
        client = self._client(session)
        polls = client.long_polls.get(number)
        if polls is None:
            polls = client.long_polls[number] = LocalLongPolls(self._engine, self._clock)
        received = await polls.receive(q, want, lease_ms, wait_s)
        await client.leases.record(q, received, lease_ms)
        return received

    async def stop_long_polls(self, session: RpcSession, number: int) -> None:
        polls = self._client(session).long_polls.get(number)
        if polls is not None:
            polls.stop()

    async def settle(self, session: RpcSession, settlement: Settlement, now_ms: int) -> SettlementResult:
        self._client(session).leases.forget_settled(settlement)
        return await self._engine.settle(settlement, now_ms)
