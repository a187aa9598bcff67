"""A ring of three nodes that are killed and paused keeps every acknowledged write. Run by `make test-ring`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Thread
from typing import Self

import pytest
from cassandra import ConsistencyLevel, DriverException
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import WhiteListRoundRobinPolicy

from lab.harness.servers import Address, Ring, fresh_keyspace
from lab.harness.waiting import wait_until

ROWS = 1_000
LOAD_ROWS = 300
"""Rows to be acknowledged before, during and after the outage of a node."""

pytestmark = pytest.mark.ring


@pytest.fixture
def table(ring: Ring) -> Iterator[str]:
    """A table with a replica on every node."""
    keyspace = fresh_keyspace()
    with _session(ring.addresses) as session:
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 3}"
        session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {replication}")
        session.execute(f"CREATE TABLE {keyspace}.rows (id int PRIMARY KEY)")
        yield f"{keyspace}.rows"


def test_a_killed_node_comes_back_with_every_row_it_acknowledged(ring: Ring, table: str) -> None:
    with _session(ring.addresses, ConsistencyLevel.ALL) as session:
        insert = session.prepare(f"INSERT INTO {table} (id) VALUES (?)")
        execute_concurrent_with_args(session, insert, [(number,) for number in range(ROWS)], concurrency=64)
    ring.kill(2)
    ring.restart(2)
    with _paused(ring, 1, 3), _session([ring.addresses[1]], ConsistencyLevel.ONE) as session:
        assert _ids(session, table) == set(range(ROWS))


@pytest.mark.parametrize("lost", ["killed", "paused"])
def test_a_quorum_goes_on_without_a_node_and_forgets_nothing(ring: Ring, table: str, lost: str) -> None:
    with _session(ring.addresses[:1]) as session, Load(session, table) as load:
        load.await_progress()
        with LOST[lost](ring, 2):
            load.await_progress()
        load.await_progress()
    with _killed(ring, 1), _session(ring.addresses[1:]) as session:
        assert load.acknowledged - _ids(session, table) == set()


# -- parts ------------------------------------------------------------------------------------------------------------


class Load:
    """Inserts one row after another within its block; collects the acknowledged ids."""

    def __init__(self, session: Session, table: str) -> None:
        self._session = session
        self._insert = session.prepare(f"INSERT INTO {table} (id) VALUES (?)")
        self._end = Event()
        self._thread = Thread(target=self._run)
        self.acknowledged: set[int] = set()

    def await_progress(self) -> None:
        """Wait until `LOAD_ROWS` more rows are acknowledged."""
        goal = len(self.acknowledged) + LOAD_ROWS
        wait_until(lambda: len(self.acknowledged) >= goal, lambda: f"{len(self.acknowledged)} of {goal} rows")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        for number in itertools.count():
            if self._end.is_set():
                return
            try:
                self._session.execute(self._insert, (number,))
            except (DriverException, NoHostAvailable):
                continue  # not acknowledged: the node that was asked may have gone
            self.acknowledged.add(number)


@contextmanager
def _paused(ring: Ring, *numbers: int) -> Iterator[None]:
    for number in numbers:
        ring.pause(number)
    try:
        yield
    finally:
        for number in numbers:
            ring.resume(number)


@contextmanager
def _killed(ring: Ring, number: int) -> Iterator[None]:
    ring.kill(number)
    try:
        yield
    finally:
        ring.restart(number)


LOST: dict[str, Callable[[Ring, int], AbstractContextManager[None]]] = {"killed": _killed, "paused": _paused}


@contextmanager
def _session(addresses: list[Address], level: int = ConsistencyLevel.QUORUM) -> Iterator[Session]:
    """A session that uses only these nodes."""
    hosts = [host for host, _ in addresses]
    profile = ExecutionProfile(
        load_balancing_policy=WhiteListRoundRobinPolicy(hosts), consistency_level=level, request_timeout=20
    )
    with Cluster(hosts, addresses[0][1], execution_profiles={EXEC_PROFILE_DEFAULT: profile}) as cluster:
        yield cluster.connect()


def _ids(session: Session, table: str) -> set[int]:
    """All ids. Retries: until the ring notices that a node is down, reads time out."""
    rows: list[int] = []

    def read() -> bool:
        try:
            rows[:] = [row.id for row in session.execute(f"SELECT id FROM {table}")]
        except DriverException:
            return False
        return True

    wait_until(read, lambda: "the rows cannot be read")
    return set(rows)
