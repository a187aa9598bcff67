"""The live processes, and which of them owns a key: rendezvous hashing over rows that expire.

A process renews its row in Cassandra; the row's time to live ends by Cassandra's clock, so the clocks of the processes
do not matter. Renewals are also announced over Redis: a process that hears all others reads the table rarely.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cqs.engines.cluster.ownership import schema
from cqs.engines.cluster.rendezvous import rendezvous

TTL_S = 12
LAPSED_MS = 12_000
"""After this time without a renewal others may have taken over: the process comes back under another name."""
RENEW_INTERVAL_MS = 4_000
CERTAIN_MS = 8_000
"""After this time without a renewal a process stops to act as an owner: others may have taken over."""
READ_INTERVAL_MS = 4_000
READ_INTERVAL_HEARD_MS = 30_000
"""The same while every process is heard over Redis."""
NAME_RENEW_MS = 86_400_000
SILENT_MS = 10_000
"""A process that was not heard for this long may be dead: the table says whether it is."""

log = structlog.get_logger(__name__)


class LiveProcesses:
    """The live processes, as this one knows them. `announce(node, alive)` tells the other processes, which call
    `heard`; an announcement may be lost."""

    def __init__(self, cassandra: Cassandra, clock: Clock, node: str, announce: Callable[[str, bool], None]) -> None:
        self._cassandra = cassandra
        self._clock = clock
        self._base = node
        self._announce = announce
        self._lives = 0
        self._renewed_ms: int | None = None
        self._renewed_real_ms = 0
        self._name_renewed: tuple[int, int] | None = None
        self._read_ms: int | None = None
        self._read_soon = True
        self._heard_ms: dict[str, int] = {}
        self._own_heard_ms = -SILENT_MS
        self.node = f"{node}.0"
        """The name of this process. After a suspension longer than its lease it takes another."""
        self.live: frozenset[str] = frozenset()
        self.departed: frozenset[str] = frozenset()
        """Processes that left nothing undone."""

    @property
    def is_valid(self) -> bool:
        """Whether this process's row certainly exists, so that no other process takes it for dead."""
        return self._renewed_ms is not None and self._since_renewal_ms(self._renewed_ms) < CERTAIN_MS

    def owner_of(self, key: str) -> str:
        """The owner among the live processes, as last read."""
        return rendezvous(self.live or {self.node}, key)

    def owns(self, key: str) -> bool:
        """Whether this process is the owner, and certainly alive. For a moment two processes may say so."""
        return self.is_valid and self.node in self.live and self.owner_of(key) == self.node

    async def step(self) -> None:
        """Renew the row and the name, and read the others', when that is due. Call it every second or two."""
        await self._renew()
        if self._read_is_due():
            await self.read()
        await self._renew_name()

    async def read(self) -> None:
        """Read the live processes."""
        begun_ms = self._clock.monotonic_ms()
        self._read_soon = False
        rows = await self._cassandra.run(schema.LIST_PROCESSES)
        live = frozenset([str(node) for node, departed in rows if not departed])
        self.departed = frozenset([str(node) for node, departed in rows if departed])
        self._read_ms = begun_ms
        self._heard_ms = {node: self._heard_ms.get(node, begun_ms) for node in live}
        if live != self.live:
            log.info("processes.changed", node=self.node, live=len(live), came=len(live - self.live))
            self.live = live

    @property
    def hears(self) -> bool:
        """Whether announcements arrive: this process hears its own."""
        return self._clock.monotonic_ms() - self._own_heard_ms < SILENT_MS

    def heard(self, node: str, alive: bool) -> None:
        """Handle another process's announcement of its renewal or end."""
        if node == self.node:
            self._own_heard_ms = self._clock.monotonic_ms()
        if alive == (node in self.live):
            self._heard_ms[node] = self._clock.monotonic_ms()
        else:
            self._read_soon = True

    async def leave(self, *, undone: bool) -> None:
        """Leave the live processes. The others take over; with `undone`, as after a crash."""
        self._renewed_ms = None
        self.live = frozenset()
        await self._cassandra.run(schema.FORGET if undone else schema.LEAVE, self.node)
        self._announce(self.node, False)

    async def _renew(self) -> None:
        begun_ms, begun_real_ms = self._clock.monotonic_ms(), self._clock.real_ms()
        since_ms = 0 if self._renewed_ms is None else self._since_renewal_ms(self._renewed_ms)
        if self._renewed_ms is not None and since_ms < RENEW_INTERVAL_MS:
            return
        if since_ms >= LAPSED_MS:
            self._lives += 1
            log.warning("process.lease_expired", node=self.node, seconds=since_ms // 1000)
            self.node = f"{self._base}.{self._lives}"
            self._read_soon = True
            self._renewed_ms = None  # no lease under the new name can expire yet
        await self._cassandra.run(schema.RENEW, self.node, TTL_S)
        self._renewed_ms, self._renewed_real_ms = begun_ms, begun_real_ms
        self._announce(self.node, True)

    def _since_renewal_ms(self, renewed_ms: int) -> int:
        return self._since_ms(renewed_ms, self._renewed_real_ms)

    def _since_ms(self, monotonic_ms: int, real_ms: int) -> int:
        """The time since then by the clock that advanced more: a suspended machine stops the monotonic one."""
        return max(self._clock.monotonic_ms() - monotonic_ms, self._clock.real_ms() - real_ms)

    async def _renew_name(self) -> None:
        """Renew the name once a day, and at the start: without Cassandra it was not made sure that it is unique."""
        begun = self._clock.monotonic_ms(), self._clock.real_ms()
        if self._name_renewed is None or self._since_ms(*self._name_renewed) >= NAME_RENEW_MS:
            await self._cassandra.run(schema.RENEW_NAME, self._base)
            self._name_renewed = begun

    def _read_is_due(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if self._read_soon or self._read_ms is None or self.node not in self.live:
            return True
        if now_ms - self._read_ms < READ_INTERVAL_MS:
            return False
        silent = not self.hears or any(now_ms - self._heard_ms.get(node, 0) >= SILENT_MS for node in self.live)
        return silent or now_ms - self._read_ms >= READ_INTERVAL_HEARD_MS
