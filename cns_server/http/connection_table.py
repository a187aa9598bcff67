"""The open connections of an API process: how many there may be, and how many bytes they may hold.

Three bounds protect other callers from clients that do not go on: a number of connections in all and per client address
(the connection that has been idle longest makes room), time limits (one sweep a second), and a sum over everything that
connections hold for their clients (the connection that has held something longest makes room).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import NamedTuple, Protocol

SWEEP_S = 1.0
"""Between two looks at the time limits of all connections, and between two lists of idle ones at the limit."""
BACKLOGS_AT_ONCE = 8
"""Of connections whose client sends ahead of the answers, those that are dealt with in one turn of the loop."""
IPV6_NETWORK_BITS = 64
"""A client has at least this network to itself, so its addresses count as one."""


class ConnectionLimits(NamedTuple):
    """Of one process. See the settings of the same names."""

    connections_max: int = 15_000
    connections_per_address_max: int = 12_000
    buffered_bytes_max: int = 32 * 1024 * 1024


class Connection(Protocol):
    """What the table asks of a connection."""

    @property
    def network(self) -> str:
        """Whom the connection counts for: see `network_of`."""

    def waiting_since_s(self) -> float | None:
        """Since when the client is expected to send something. None: a request is being answered, or it is closing."""

    def enforce_deadlines(self, now_s: float) -> None:
        """Close the connection if one of its time limits has passed."""

    def make_room(self) -> None:
        """Close the connection for the sake of others."""


class ConnectionTable:
    """All connections of a process. Times are of the event loop's clock, in seconds."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._connections: set[Connection] = set()
        self._by_network: Counter[str] = Counter()
        self._held: dict[Connection, int] = {}  # in the order in which they began to hold something
        self._idle: dict[str, _IdleList] = {}  # by network; "": of all networks
        self._turns: deque[Callable[[], None]] = deque()
        self._giving_turns = False  # a call of `_give_turns` is under way or scheduled
        self._sweep: asyncio.TimerHandle | None = None
        self.held_bytes = 0
        """The sum of what connections hold now."""

    def __len__(self) -> int:
        return len(self._connections)

    # -- number -------------------------------------------------------------------------------------------------------

    def admit(self, connection: Connection, now_s: float) -> bool:
        """Count a new connection; at a limit, close the one that has been idle longest. False: none is idle."""
        self._connections.add(connection)
        self._by_network[connection.network] += 1
        if self._by_network[connection.network] > self._limits.connections_per_address_max:
            return self._close_idle(connection, connection.network, now_s)
        if len(self._connections) > self._limits.connections_max:
            return self._close_idle(connection, "", now_s)
        return True

    def forget(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self.hold(connection, 0)
        self._by_network[connection.network] -= 1
        if not self._by_network[connection.network]:
            del self._by_network[connection.network]

    def _close_idle(self, newcomer: Connection, network: str, now_s: float) -> bool:
        idle = self._idle.get(network)
        if idle is None or (not idle.entries and now_s >= idle.listed_at_s + SWEEP_S):
            idle = self._idle[network] = self._list_idle(newcomer, network, now_s)
        while idle.entries:
            entry = idle.entries.pop()
            if entry.connection in self._connections and entry.connection.waiting_since_s() == entry.since_s:
                entry.connection.make_room()
                return True
        return False

    def _list_idle(self, newcomer: Connection, network: str, now_s: float) -> _IdleList:
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

    def hold(self, connection: Connection, held_bytes: int) -> None:
        """Set how much a connection holds; above the limit, close those that have held something longest."""
        held = self._held
        if not held_bytes:
            self.held_bytes -= held.pop(connection, 0)
            return
        self.held_bytes += held_bytes - held.get(connection, 0)
        held[connection] = held_bytes
        while self.held_bytes > self._limits.buffered_bytes_max:
            oldest = next(iter(held))
            self.held_bytes -= held.pop(oldest)
            oldest.make_room()

    # -- turns --------------------------------------------------------------------------------------------------------

    def take_turn(self, go_on: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Call later what deals with a backlog. A few in each turn of the loop, so that other requests come between."""
        self._turns.append(go_on)
        if not self._giving_turns:
            self._giving_turns = True
            loop.call_soon(self._give_turns, loop)

    def _give_turns(self, loop: asyncio.AbstractEventLoop) -> None:
        turns = self._turns
        try:
            for _ in range(min(BACKLOGS_AT_ONCE, len(turns))):
                turns.popleft()()
        finally:  # what one connection raises goes to the loop's handler, and ends nobody else's turn
            self._giving_turns = bool(turns)
            if turns:
                loop.call_soon(self._give_turns, loop)

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
    connection: Connection


class _IdleList(NamedTuple):
    """`entries` has the connection that has been idle longest last."""

    listed_at_s: float
    entries: list[_IdleEntry]


def network_of(address: str) -> str:
    """An IPv4 address itself; of an IPv6 address the /64 network."""
    if ":" not in address:
        return address
    return format(int(IPv6Address(address)) >> (128 - IPV6_NETWORK_BITS), "x")
