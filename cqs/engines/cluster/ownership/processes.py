"""The live processes, and which of them owns a key: rendezvous hashing over rows that expire.

Each process is a member of one group (`Membership`). Renewals are also announced over Redis: a process that hears all
others reads the table rarely.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.cluster.lease import LeaseTimes
from cns_common.cluster.membership import MemberRows, Membership
from cns_common.cluster.rendezvous import rendezvous
from cns_common.cluster.stopwatch import Stopwatch, start_stopwatch
from cns_common.errors import StartError
from cqs.engines.cluster.ownership import schema

TTL_S = 12
LAPSED_MS = 10_000
"""After this time without a renewal others may have taken over, or `cns migrate` may have begun: the process comes back
under another name. Cassandra ends rows by whole seconds, so one may live for a second less than its time to live;
another second is for nodes whose clocks differ."""
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
        self._has_returned = False
        self.on_shown: Callable[[], Awaitable[None]] = _nothing
        """Called at each renewal, when the others have this process among the living ones: no clock shows that a
        virtual machine was paused and its clocks with it. When it raises StartError, `is_away` is true until it does
        not."""
        rows = MemberRows(schema.RENEW, schema.FORGET, TTL_S, LeaseTimes(CERTAIN_MS, RENEW_INTERVAL_MS))
        self._membership = Membership(cassandra, clock, rows, f"{node}.0")
        self._name_since: Stopwatch | None = None
        self._read_ms: int | None = None
        self._read_soon = True
        self._heard_ms: dict[str, int] = {}
        self._own_heard_ms = -SILENT_MS
        self.live: frozenset[str] = frozenset()
        self.departed: frozenset[str] = frozenset()
        """Processes that left nothing undone."""

    @property
    def node(self) -> str:
        """The name of this process. After a suspension longer than its lease it takes another."""
        return self._membership.process

    @property
    def is_certain(self) -> bool:
        """Whether this process's row certainly exists, so that no other process takes it for dead."""
        return self._membership.lease.is_certain

    @property
    def is_away(self) -> bool:
        """Whether others may take this process for dead, and so may have begun what waits for its end."""
        return not self._has_returned or self._has_lapsed

    def owner_of(self, key: str) -> str:
        """The owner among the live processes, as last read."""
        return rendezvous(self.live or {self.node}, key)

    def owns(self, key: str) -> bool:
        """Whether this process is the owner, and certainly alive. For a moment two processes may say so."""
        return self.is_certain and self.node in self.live and self.owner_of(key) == self.node

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
        self._membership.lease.end()
        self.live = frozenset()
        await self._cassandra.run(schema.FORGET if undone else schema.LEAVE, self.node)
        self._announce(self.node, False)

    @property
    def _has_lapsed(self) -> bool:
        lease = self._membership.lease
        return lease.held and lease.age_ms >= LAPSED_MS

    async def _renew(self) -> None:
        lease = self._membership.lease
        if not lease.is_due:
            return
        if self._has_lapsed:
            self._lives += 1
            log.warning("process.lease_expired", node=self.node, seconds=lease.age_ms // 1000)
            self._membership.process = f"{self._base}.{self._lives}"
            self._read_soon = True
            self._has_returned = False
            lease.end()  # no lease under the new name can expire yet
        since = await self._membership.show()
        if self._has_lapsed:  # the row may have expired before this one came: the next step begins another life
            return
        lease.hold(since)
        self._announce(self.node, True)
        try:
            await self.on_shown()
        except StartError:
            self._has_returned = False
            raise
        self._has_returned = True

    async def _renew_name(self) -> None:
        """Renew the name once a day, and at the start: without Cassandra it was not made sure that it is unique."""
        since = start_stopwatch(self._clock)
        if self._name_since is None or self._name_since.elapsed_ms(self._clock) >= NAME_RENEW_MS:
            await self._cassandra.run(schema.RENEW_NAME, self._base)
            self._name_since = since

    def _read_is_due(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if self._read_soon or self._read_ms is None or self.node not in self.live:
            return True
        if now_ms - self._read_ms < READ_INTERVAL_MS:
            return False
        silent = not self.hears or any(now_ms - self._heard_ms.get(node, 0) >= SILENT_MS for node in self.live)
        return silent or now_ms - self._read_ms >= READ_INTERVAL_HEARD_MS


async def _nothing() -> None:
    """Nobody objects to a return."""
