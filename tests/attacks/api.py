"""Attacks on the API by callers without credentials: `python -m tests.attacks.api [NAME…]`.

Starts a `cns up` of its own, attacks it over loopback and prints a table: growth of the API process's memory and the
p99 of normal signed calls beside each attack. Ends with 1 if a bar of `tests.attacks.measure` is missed. Every attack
is bounded in connections and bytes.
"""

from __future__ import annotations

import resource
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from lab.harness.running import Up, running
from tests.attacks.measure import LatencyProbe, Outcome, Tally, measure, probing, resident_bytes, table

SEND_S = 0.5
"""A connection counts as full when a write makes no progress for this long."""
CALLS_BESIDE = 300
HANG_UPS_PER_CALL = 25
PIECE = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of an attack: connections at once, bytes of each, repetitions."""

    connections: int
    each_bytes: int = 0
    rounds: int = 1

    def shrunk(self, connections_max: int, bytes_max: int) -> Size:
        return Size(
            connections=min(self.connections, connections_max), each_bytes=min(self.each_bytes, bytes_max), rounds=1
        )


class Crowd:
    """The attacker's connections."""

    def __init__(self, host: str, port: int, pace: Callable[[], None]) -> None:
        """`pace` waits for the next normal call."""
        self._address = (host, port)
        self.pace = pace
        self._open: list[socket.socket] = []
        self._connections = self._sent_bytes = self._ended = 0

    def connect(self) -> socket.socket:
        connection = socket.create_connection(self._address, timeout=30)
        connection.settimeout(SEND_S)
        self._connections += 1
        self._open.append(connection)
        return connection

    def send(self, connection: socket.socket, piece: bytes) -> bool:
        """Send bytes. False when the service has closed the connection or reads no more."""
        rest = memoryview(piece)
        while rest:
            try:
                sent = connection.send(rest)
            except TimeoutError:
                return False
            except OSError:
                self._ended += 1
                return False
            self._sent_bytes += sent
            rest = rest[sent:]
        return True

    def send_each(self, size: Size, head: bytes, piece: bytes) -> None:
        """Open connections and send on each a head, then the piece until its bytes are used up."""
        live = [(connection, [size.each_bytes]) for connection in [self.connect() for _ in range(size.connections)]]
        live = [(connection, left) for connection, left in live if self.send(connection, head)]
        while live:
            live = [pair for pair in live if pair[1][0] > 0 and self._send_part(*pair, piece)]

    def _send_part(self, connection: socket.socket, left: list[int], piece: bytes) -> bool:
        part = piece[: left[0]]
        left[0] -= len(part)
        return self.send(connection, part)

    def close(self) -> None:
        for connection in self._open:
            connection.close()
        self._open.clear()

    def tally(self) -> Tally:
        return Tally(connections=self._connections, sent_bytes=self._sent_bytes, ended=self._ended)


Attack = Callable[[Crowd, Size], None]


def head(*lines: str, target: str = "/", method: str = "POST") -> bytes:
    form = "Content-Type: application/x-www-form-urlencoded"
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: x", form, *lines, "", ""]).encode()


def flood(beginning: bytes, piece: bytes) -> Attack:
    """Each connection sends a beginning, then the piece until its bytes are used up."""
    return lambda crowd, size: crowd.send_each(size, beginning, piece)


def forms(text: bytes) -> Attack:
    """Each connection sends a whole form that repeats this text."""

    def attack(crowd: Crowd, size: Size) -> None:
        form = b"Action=" + text * ((size.each_bytes - 7) // len(text))
        crowd.send_each(size, head(f"Content-Length: {len(form)}"), form)

    return attack


def unread(request: bytes) -> Attack:
    """Each connection sends requests and reads no answer."""
    return flood(b"", request * (PIECE // len(request)))


def unfinished_bodies(crowd: Crowd, size: Size) -> None:
    crowd.send_each(size, head(f"Content-Length: {size.each_bytes + 1}"), b"x" * PIECE)


def unfinished_heads(crowd: Crowd, size: Size) -> None:
    crowd.send_each(size, b"POST / HTTP/1.1\r\n", b"a: " + b"x" * (size.each_bytes - 3))


def silent_connections(crowd: Crowd, size: Size) -> None:
    for _ in range(size.connections):
        crowd.connect()


def hang_ups(crowd: Crowd, size: Size) -> None:
    """Open connections at a rate below the one at which a process accepts them."""
    for number in range(size.connections):
        if number % HANG_UPS_PER_CALL == 0:
            crowd.pace()
        crowd.send(crowd.connect(), head("Content-Length: 100", target=PAGE) + b"x")
        crowd.close()


PAGE = "/unsubscribe.html"
CHUNKS = head("Transfer-Encoding: chunked")
CHUNKS_OF_A_PAGE = head("Transfer-Encoding: chunked", target=PAGE)
FIELDS = (b"a: " + b"x" * 59 + b"\r\n") * (PIECE // 64)
XS = b"x" * PIECE
ATTACKS: Mapping[str, tuple[Attack, Size]] = {
    "nothing": (silent_connections, Size(connections=0)),
    "trailers": (flood(CHUNKS + b"0\r\n", FIELDS), Size(connections=8, each_bytes=128_000_000)),
    "trailer-value": (flood(CHUNKS + b"0\r\na: ", XS), Size(connections=4, each_bytes=64_000_000)),
    "chunk-extensions": (flood(CHUNKS + b"1;", XS), Size(connections=8, each_bytes=64_000_000)),
    "page-trailers": (flood(CHUNKS_OF_A_PAGE + b"0\r\n", FIELDS), Size(connections=8, each_bytes=64_000_000)),
    "page-bodies": (
        flood(head("Content-Length: 9999999999", target=PAGE), XS),
        Size(connections=100, each_bytes=4_000_000),
    ),
    "unread-answers": (
        unread(head(target=f"/?Action={'<' * 100}", method="GET")),
        Size(connections=50, each_bytes=4_000_000),
    ),
    "unread-long-answers": (
        unread(head(target=f"/?Action={'<' * 15_000}", method="GET")),
        Size(connections=50, each_bytes=10_000_000),
    ),
    "unread-pages": (unread(b"GET /health HTTP/1.1\r\n\r\n"), Size(connections=50, each_bytes=4_000_000)),
    "unfinished-bodies": (unfinished_bodies, Size(connections=100, each_bytes=6_000_000)),
    "tiny-chunks": (flood(CHUNKS, b"2\r\nxx\r\n" * (PIECE // 7)), Size(connections=20, each_bytes=6_000_000)),
    "escaped-forms": (forms(b"%41"), Size(connections=4, each_bytes=6_000_000, rounds=10)),
    "broken-escapes": (forms(b"%zz"), Size(connections=4, each_bytes=6_000_000, rounds=10)),
    "many-fields": (forms(b"&a="), Size(connections=4, each_bytes=6_000_000, rounds=10)),
    "unfinished-heads": (unfinished_heads, Size(connections=2_000, each_bytes=16_000)),
    "silent-connections": (silent_connections, Size(connections=13_000)),
    "hang-ups": (hang_ups, Size(connections=10_000)),
}


class Site(NamedTuple):
    """A service under attack. `start_bytes` was resident in its API process before all attacks."""

    service: Up
    probe: LatencyProbe
    start_bytes: int


def run(site: Site, name: str, size: Size, calls: int = CALLS_BESIDE) -> Outcome:
    """Run one attack. Its connections stay open until so many normal calls were made."""
    service, probe, start_bytes = site
    address = urlsplit(service.url)
    attack = ATTACKS[name][0]

    def attacked() -> Tally:
        crowd = Crowd(str(address.hostname), address.port or 80, lambda: probe.wait_for_calls(1))
        try:
            for _ in range(size.rounds):
                attack(crowd, size)
            probe.wait_for_calls(calls)
        finally:
            crowd.close()
        return crowd.tally()

    return measure(
        name,
        attacked,
        pid=service.pids()["api"],
        start_bytes=start_bytes,
        probe=probe,
        said=lambda: service.process.log.stat().st_size,
    )


@contextmanager
def attacked_service(directory: Path) -> Iterator[Site]:
    """A service with default settings, and normal calls to it all the time."""
    with running(directory / "data") as service, probing(service.url, service.environment) as probe:
        probe.wait_for_calls(CALLS_BESIDE)  # memory that a process needs once does not count as growth
        yield Site(service, probe, resident_bytes(service.pids()["api"]))


def main(names: list[str]) -> int:
    unknown = set(names) - set(ATTACKS)
    if unknown:
        print(f"no such attack: {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}", file=sys.stderr)
        return 2
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    outcomes = []
    with tempfile.TemporaryDirectory() as directory, attacked_service(Path(directory)) as site:
        for name in names or ATTACKS:
            outcomes.append(run(site, name, ATTACKS[name][1]))
            print(f"{name}: {', '.join(outcomes[-1].faults) or 'ok'}", file=sys.stderr, flush=True)
    print(table(outcomes))
    return 1 if any(outcome.faults for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
