"""The leases of one client process: released at once when its connection is lost."""

from __future__ import annotations

from contextlib import suppress

from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cqs.engines.contract import Change, Engine, QueueRef, ReceiveResult, Settlement


class ClientLeases:
    """The messages that a client received by long poll and has not settled or changed yet.

    A message leaves this set at the client's first delete or change of it: from then on it stays hidden for as long as
    the client said.
    """

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._leases: dict[bytes, tuple[QueueRef, int]] = {}  # by handle, oldest first: queue and end of the lease
        self._client_gone = False

    def __len__(self) -> int:
        return len(self._leases)

    async def record(self, q: QueueRef, received: ReceiveResult, lease_ms: int) -> None:
        """Record what the client is about to get; release it if the client has gone meanwhile."""
        now_ms = self._clock.now_ms()
        self._forget_expired(now_ms)
        for message in received.messages:
            self._leases[message.handle] = (q, now_ms + lease_ms)
        if self._client_gone:
            await self._release()

    def forget_settled(self, settlement: Settlement) -> None:
        for _, handle in settlement.deletes:
            self._leases.pop(handle, None)
        for _, change in settlement.changes:
            self._leases.pop(change.handle, None)

    async def release_all(self) -> None:
        """Make the messages visible again: the client's connection is lost."""
        self._client_gone = True
        await self._release()

    async def _release(self) -> None:
        leases, self._leases = self._leases, {}
        now_ms = self._clock.now_ms()
        changes = [(q, Change(handle, now_ms)) for handle, (q, _) in leases.items()]
        if changes:
            with suppress(StoreUnavailable, OutcomeUnknown):  # then the messages return when their leases end
                await self._engine.settle(Settlement(changes=tuple(changes)), now_ms)

    def _forget_expired(self, now_ms: int) -> None:
        while self._leases:
            handle = next(iter(self._leases))
            if self._leases[handle][1] > now_ms:
                return
            del self._leases[handle]
