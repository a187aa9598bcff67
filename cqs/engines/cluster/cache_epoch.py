"""Decides which Redis server all processes use: by one conditional row in Cassandra, which they all read.

The row has the number of an *epoch* and the run id of the server that is *trusted*, i.e. used by all, in it; '' if none
is: then processes hide messages by claims on buckets. A change of the server, or a loss of its content, begins an
epoch. Each process also has a row of its own, which expires: the epoch by which it acts, and the server that it
reaches. Messages are leased in an epoch once all living processes act by it. Until then each process saves what it hid
under the previous epoch into the messages' rows.

A process is *certain* of its epoch for `CERTAIN_MS` after it began to renew its row. Others wait for it until the row
expires, which is later, so no two processes lease by different epochs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

import structlog

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.errors import CnsError, StoreUnavailable
from cns_common.redis.urls import FIRST_SERVER
from cqs.engines.cluster import schema

TTL_S = 6
CERTAIN_MS = 4_000
RENEW_INTERVAL_S = 1.5
RENEW_TIMEOUT_S = 2.0
CONFIRM_TRIES = 3
"""As many as fit into the deadline of a call."""
EPOCH_START_MAX = 2**31

log = structlog.get_logger(__name__)


class TrustState(NamedTuple):
    epoch: int = 0
    """0 before any process decided."""
    server: str = ""
    seen_by_all: bool = False
    """Whether all living processes act by this epoch."""
    reached: Mapping[str, str] = MappingProxyType({})
    """The servers that living processes reach, by the process; '' for one that reaches none."""
    others: int = 0
    """The number of other living processes."""


class CacheEpoch:
    def __init__(self, cassandra: Cassandra, clock: Clock, node: str, cache: str = FIRST_SERVER) -> None:
        """`cache` is the name of the server, which is the key of its row. Each activation of a site has rows of its
        own, so that no state of the site before is taken over."""
        self._cassandra = cassandra
        self._clock = clock
        self.node = node
        self.name = f"{cache}@{cassandra.activation}" if cassandra.activation else cache
        self._lock = asyncio.Lock()
        self._confirming: asyncio.Task[TrustState] | None = None
        self._certain_from: tuple[int, int] | None = None
        self.epoch = 0
        """The epoch by which this process acts."""
        self.reached = ""
        """The server that this process reaches; for a layout, the process's name and its configured servers."""
        self.state = TrustState()
        self.changed = asyncio.Event()
        """Set when a read of the row shows another epoch than the one by which this process acts."""

    @property
    def is_valid(self) -> bool:
        """Whether this process is certain of its epoch: no other process acts by a later one."""
        if self._certain_from is None:
            return False
        return all(now - then < CERTAIN_MS for now, then in zip(self._times(), self._certain_from, strict=True))

    def _times(self) -> tuple[int, int]:
        """The monotonic clock stands still while the machine is suspended; then the other has stepped forward."""
        return self._clock.monotonic_ms(), self._clock.real_ms()

    def act_by(self, epoch: int) -> None:
        """Act by an epoch; others see that with the next renewal."""
        self.epoch = epoch
        self._certain_from = None
        self.changed.clear()

    async def renew(self) -> TrustState:
        """Write this process's row and read those of the others."""
        async with self._lock:
            try:
                async with asyncio.timeout(RENEW_TIMEOUT_S):
                    await self._renew()
            except TimeoutError:
                raise StoreUnavailable("Cassandra did not confirm the cache epoch in time") from None
        return self.state

    async def ensure_certain(self) -> None:
        """Renew until this process is certain: once for all concurrent callers, and again if Cassandra only pauses."""
        for tries_left in reversed(range(CONFIRM_TRIES)):
            if self._confirming is None or self._confirming.done():
                self._confirming = asyncio.create_task(self.renew())
            try:
                await asyncio.shield(self._confirming)
            except StoreUnavailable:
                if not tries_left:
                    raise
            else:
                return

    async def _renew(self) -> None:
        begun, epoch = self._times(), self.epoch
        certain = self.is_valid
        await self._cassandra.run(schema.RENEW_TRUST, self.name, self.node, epoch, self.reached, TTL_S)
        self.state = await self._read()
        if self.state.epoch != epoch:
            self.changed.set()
        elif epoch and (certain or await self._confirm(epoch)) and epoch == self.epoch:
            self._certain_from = begun

    async def _confirm(self, epoch: int) -> bool:
        """Compare the epoch by a conditional write: this process's row may have expired, and a later epoch begun
        unseen."""
        return await self._cassandra.run_conditional(schema.CONFIRM_TRUST, epoch, self.name, epoch)

    async def read_state(self) -> TrustState:
        """Read the state, without writing this process's row."""
        self.state = await self._read()
        return self.state

    async def _read(self) -> TrustState:
        rows = await self._cassandra.run(schema.READ_TRUST, self.name)
        epoch, server = rows[0][:2] if rows else (None, None)
        living = {node: (seen or 0, reached or "") for _, _, node, seen, reached in rows if node is not None}
        return TrustState(
            epoch or 0,
            server or "",
            all(seen == epoch for seen, _ in living.values()),
            {node: reached for node, (_, reached) in living.items()},
            len(living.keys() - {self.node}),
        )

    async def propose(self, server: str, above: int = 0) -> int:
        """Try to begin an epoch, with a number above `above`, in which `server` is trusted. Returns its number, 0 if
        another process was quicker or the outcome is unknown."""
        before = self.state.epoch
        epoch = max(before, above) + 1
        if before:
            begun = await self._cassandra.run_conditional(schema.NEXT_TRUST, epoch, server, self.name, before)
        else:  # from the clock: a Redis may know the numbers of a removed keyspace
            epoch = max(epoch, min(self._clock.wall_ms() // 1000, EPOCH_START_MAX))
            begun = await self._cassandra.run_conditional(schema.FIRST_TRUST, epoch, server, self.name)
        return epoch if begun else 0

    async def keep_renewed(self) -> None:
        """Renew periodically. The caller makes the first renewal."""
        while True:
            await asyncio.sleep(RENEW_INTERVAL_S)
            try:
                await self.renew()
            except CnsError as error:
                log.warning("cache_epoch.renewal_failed", error=str(error))

    async def leave(self) -> None:
        """Tell the other processes that this one leases no more messages."""
        self._certain_from = None
        with suppress(CnsError):  # the row expires by itself
            await self._cassandra.run(schema.LEAVE_TRUST, self.name, self.node)
