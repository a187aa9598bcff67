"""The open connections of an API process: how many there may be, and how many bytes they may hold.

Three bounds protect other callers from slow or hostile clients: the number of connections, in all and per client
address (at the limit, the connection that has been idle longest is closed); time limits (one sweep a second); and the
sum of bytes held for clients (above the limit, the connection that has held bytes longest is closed).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import NamedTuple, Protocol

SWEEP_S = 1.0
"""Interval of checks of all time limits. At the limit of connections, idle ones are listed at most this often."""
BACKLOGS_PER_LOOP_TURN = 8
"""Connections whose backlog (see `BoundedProtocol`) is parsed in one turn of the event loop."""
IPV6_NETWORK_BITS = 64
"""One client usually has a whole network of this size, so its addresses count as one."""


class ConnectionLimits(NamedTuple):
    """Limits of one process. The settings of the same names describe them."""

    connections_max: int = 15_000
    connections_per_address_max: int = 12_000
    buffered_bytes_max: int = 32 * 1024 * 1024


class ClientConnection(Protocol):
    """The part of a connection that the table uses."""

    @property
    def network(self) -> str:
        """The client's network, from `network_of`. Empty: a proxy's, which counts in no limit of one client."""

    def waiting_since_s(self) -> float | None:
        """Start of the wait for the client; None while a request is being answered, or when the connection closes."""

    def enforce_deadlines(self, now_s: float) -> None:
        """Close the connection if one of its time limits has passed."""

    def evict(self) -> None:
        """Close the connection: a limit is reached."""


class ConnectionTable:
    """All connections of a process. Times are of the event loop's clock, in seconds."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._connections: set[ClientConnection] = set()
        self._by_network: Counter[str] = Counter()
        self._held: dict[ClientConnection, int] = {}  # oldest first
        self._idle: dict[str, _IdleList] = {}  # by network; "": all networks
        self._backlogs: deque[Callable[[], None]] = deque()
        self._backlogs_scheduled = False  # `_run_backlogs` runs or is scheduled
        self._sweep: asyncio.TimerHandle | None = None
        self.held_bytes = 0
        """Sum over all connections."""

    def __len__(self) -> int:
        return len(self._connections)

    # -- number -------------------------------------------------------------------------------------------------------

    def admit(self, connection: ClientConnection, now_s: float) -> bool:
        """Count a new connection; at a limit, evict the one that has been idle longest. False: none is idle."""
        self._connections.add(connection)
        self._by_network[connection.network] += 1
        if connection.network and self._by_network[connection.network] > self._limits.connections_per_address_max:
            return self._close_idle(connection, connection.network, now_s)
        if len(self._connections) > self._limits.connections_max:
            return self._close_idle(connection, "", now_s)
        return True

    def remove(self, connection: ClientConnection) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self.set_held_bytes(connection, 0)
        self._by_network[connection.network] -= 1
        if not self._by_network[connection.network]:
            del self._by_network[connection.network]

    def _close_idle(self, newcomer: ClientConnection, network: str, now_s: float) -> bool:
        idle = self._idle.get(network)
        if idle is None or (not idle.entries and now_s >= idle.listed_at_s + SWEEP_S):
            idle = self._idle[network] = self._list_idle(newcomer, network, now_s)
        while idle.entries:
            entry = idle.entries.pop()
            if entry.connection in self._connections and entry.connection.waiting_since_s() == entry.since_s:
                entry.connection.evict()
                return True
        return False

    def _list_idle(self, newcomer: ClientConnection, network: str, now_s: float) -> _IdleList:
        """At most once a second, because it looks at all connections."""
        entries = [
            _IdleEntry(since_s, connection)
            for connection in self._connections
            if connection is not newcomer
            and network in ("", connection.network)
            and (since_s := connection.waiting_since_s()) is not None
        ]
        entries.sort(key=lambda entry: -entry.since_s)
        return _IdleList(now_s, entries)

    # -- bytes --------------------------------------------------------------------------------------------------------

    def set_held_bytes(self, connection: ClientConnection, held_bytes: int) -> None:
        """Set how much a connection holds; above the limit, evict those that have held bytes longest."""
        held = self._held
        if not held_bytes:
            self.held_bytes -= held.pop(connection, 0)
            return
        self.held_bytes += held_bytes - held.get(connection, 0)
        held[connection] = held_bytes
        while self.held_bytes > self._limits.buffered_bytes_max:
            oldest = next(iter(held))
            self.held_bytes -= held.pop(oldest)
            oldest.evict()

    # -- backlogs -----------------------------------------------------------------------------------------------------

    def schedule_backlog(self, parse: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Call `parse` later. Each loop turn runs a few of these calls, so that other requests get their turn."""
        self._backlogs.append(parse)
        if not self._backlogs_scheduled:
            self._backlogs_scheduled = True
            loop.call_soon(self._run_backlogs, loop)

    def _run_backlogs(self, loop: asyncio.AbstractEventLoop) -> None:
        backlogs = self._backlogs
        try:
            for _ in range(min(BACKLOGS_PER_LOOP_TURN, len(backlogs))):
                backlogs.popleft()()
        finally:  # an error goes to the loop's handler; the other connections still get their turn
            self._backlogs_scheduled = bool(backlogs)
            if backlogs:
                loop.call_soon(self._run_backlogs, loop)

    # -- time ---------------------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Sweep once a second until stopped."""
        self._sweep = loop.call_later(SWEEP_S, self._sweep_again, loop)

    def stop(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()

    def _sweep_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self.start(loop)
        self.sweep(loop.time())

    def sweep(self, now_s: float) -> None:
        self._idle.clear()
        for connection in list(self._connections):
            connection.enforce_deadlines(now_s)


class _IdleEntry(NamedTuple):
    since_s: float
    connection: ClientConnection


class _IdleList(NamedTuple):
    """`entries` has the connection that has been idle longest last."""

    listed_at_s: float
    entries: list[_IdleEntry]


def network_of(address: str) -> str:
    """The client's network: an IPv4 address itself, the /64 network of an IPv6 address."""
    if ":" not in address:
        return address
    return format(int(IPv6Address(address)) >> (128 - IPV6_NETWORK_BITS), "x")
