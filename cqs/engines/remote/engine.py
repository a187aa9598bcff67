"""The client's half of the remote engine."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from cns_common.errors import OutcomeUnknown
from cns_common.rpc.rpc import RpcClient
from cns_common.task_cancellation import ignore_outcome
from cqs.engines.contract import (
    Capabilities,
    Change,
    Counts,
    Engine,
    Entry,
    ExpiredMessage,
    LongPolls,
    Outcome,
    PeekPage,
    QueueRef,
    ReceiveResult,
    RejectedEntry,
    SentEntry,
    Settlement,
    SettlementResult,
)
from cqs.engines.options import EngineOption
from cqs.engines.remote.protocol import prefix, woken_event
from cqs.engines.waiters import FutureWaiter


class RemoteEngine(Engine):
    def __init__(self, client: RpcClient, engine_name: str, capabilities: Capabilities) -> None:
        self._client = client
        self._prefix = prefix(engine_name)
        self.capabilities = capabilities
        self.options: Mapping[str, EngineOption] = {}  # no engine of the embedded form has options
        self._waiters: dict[int, RemoteWaiter] = {}
        self._next_number = 0
        client.on_event(woken_event(engine_name), int, self._on_woken)
        client.on_connect.append(self._register_again)

    @classmethod
    async def connect(cls, client: RpcClient, engine_name: str) -> RemoteEngine:
        return cls(client, engine_name, await client.call(f"{prefix(engine_name)}capabilities"))

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
            self._client.post(self._prefix + name, *arguments).add_done_callback(ignore_outcome)

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


class RemoteLongPolls(LongPolls):
    """A receive is one call, however long it waits."""

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
