"""The floor of the cluster form: writes the rows of the cluster engine with the same driver, and nothing else.

One process keeps the visible messages in memory, so there is no Redis; sends and deletes are answered after Cassandra's
answer.

python -m lab.floor.rows --port 9400 --data DIRECTORY    (Cassandra where CNS_CASSANDRA… say)
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy
from cassandra.query import PreparedStatement, tuple_factory

from cns_common.cassandra.connection import PROTOCOL_VERSION, SOCKET_OPTIONS, cassandra_address
from cns_common.configuration.settings import load_settings
from cqs.engines.cluster import schema
from lab.floor.server import main
from lab.floor.store import Answer, Delivery, Handle

EXIT_FAILED = 1


class CassandraRows:
    """Implements `floor.server.Backend`. All messages of a run are in one bucket, that is one partition."""

    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self._session = session
        self._loop = loop
        self._insert, self._read, self._delete = (
            session.prepare(statement.cql) for statement in (schema.INSERT, schema.READ, schema.DELETE)
        )
        self._bucket = f"floor-{os.getpid()}"
        self._seq = 0
        self._visible: defaultdict[str, deque[int]] = defaultdict(deque)
        self._queues: dict[int, str] = {}

    def create(self, answer: Answer, _name: str) -> None:
        answer(None)

    def send(self, answer: Answer, name: str, bodies: list[str]) -> None:
        (body,) = bodies  # no batches: they would be many statements here, and one in the service
        self._seq += 1
        seq, now_ms = self._seq, int(time.time() * 1000)
        values = (name, self._bucket, seq, f"{seq:032x}", body.encode(), now_ms, now_ms, "", 0, 0, now_ms * 1000)

        def stored(_: object) -> None:
            self._queues[seq] = name
            self._visible[name].append(seq)
            answer(seq)

        self._run(self._insert, values, stored)

    def receive(self, answer: Answer, name: str, n: int, _hide_ms: int, _wait_s: float) -> None:
        """Received messages never become visible again: no workload needs that."""
        visible = self._visible[name]
        seqs = [visible.popleft() for _ in range(min(n, len(visible)))]
        if not seqs:
            answer([])
            return

        def read(rows: list[tuple[Any, ...]]) -> None:
            deliveries: list[Delivery] = [(row[0], 1, row[2].decode()) for row in rows]
            answer(deliveries)

        self._run(self._read, (name, self._bucket, seqs), read)

    def delete(self, answer: Answer, handles: list[Handle]) -> None:
        ((seq, _lease),) = handles
        write_us = int(time.time() * 1_000_000) + schema.DELETE_AHEAD_US
        self._run(self._delete, (write_us, self._queues.pop(seq), self._bucket, seq), answer)

    def close(self) -> None:
        self._session.cluster.shutdown()

    def _run(self, statement: PreparedStatement, values: tuple[object, ...], done: Callable[[Any], object]) -> None:
        self._session.execute_async(statement.bind(values)).add_callbacks(
            lambda rows: self._loop.call_soon_threadsafe(done, rows), _end_process
        )


def _end_process(error: Exception) -> None:
    """End the process: closed connections end the bench, while an unanswered call would block it."""
    print(f"floor: {error}", file=sys.stderr, flush=True)
    os._exit(EXIT_FAILED)


async def _open_rows(_data: Path) -> CassandraRows:
    place = cassandra_address(load_settings())
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(place.data_centre)),
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        row_factory=tuple_factory,
    )
    cluster = Cluster(
        place.hosts,
        port=place.port,
        protocol_version=PROTOCOL_VERSION,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        sockopts=SOCKET_OPTIONS,
    )
    return CassandraRows(cluster.connect(place.keyspace), asyncio.get_running_loop())


if __name__ == "__main__":
    main(_open_rows)
