"""What a user in another process was handed and has not answered for yet: for others at once when it is gone."""

from __future__ import annotations

from contextlib import suppress

from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cqs.engines.contract import Change, Engine, QueueRef, Received, Settlement


class Handed:
    """The messages of one user's receives, from its first lease to the first that it says of them.

    What it deletes is done. What it changes it holds, or hides, for as long as it says: that is not taken from it.
    """

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._leases: dict[bytes, tuple[QueueRef, int]] = {}  # by handle, in their order: until when
        self._gone = False

    def __len__(self) -> int:
        return len(self._leases)

    async def hand(self, q: QueueRef, received: Received, lease_ms: int) -> None:
        """To the user, who may be gone by now."""
        now_ms = self._clock.now_ms()
        self._forget_ended(now_ms)
        for message in received.messages:
            self._leases[message.handle] = (q, now_ms + lease_ms)
        if self._gone:
            await self._give_back()

    def answered(self, settlement: Settlement) -> None:
        for _, handle in settlement.deletes:
            self._leases.pop(handle, None)
        for _, change in settlement.changes:
            self._leases.pop(change.handle, None)

    async def forsake(self) -> None:
        """The user has gone without a word."""
        self._gone = True
        await self._give_back()

    async def _give_back(self) -> None:
        leases, self._leases = self._leases, {}
        now_ms = self._clock.now_ms()
        changes = [(q, Change(handle, now_ms)) for handle, (q, _) in leases.items()]
        if changes:
            with suppress(StoreUnavailable, OutcomeUnknown):  # then the leases end it
                await self._engine.settle(Settlement(changes=tuple(changes)), now_ms)

    def _forget_ended(self, now_ms: int) -> None:
        while self._leases:
            handle = next(iter(self._leases))
            if self._leases[handle][1] > now_ms:
                return
            del self._leases[handle]
