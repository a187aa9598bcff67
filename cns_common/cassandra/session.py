"""Cassandra from one event loop: prepared statements in, rows out; the driver's errors become this service's.

The driver answers in a thread of its own. All replies of a burst wake the loop once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from cassandra import (
    ConsistencyLevel,
    DriverException,
    OperationTimedOut,
    ReadTimeout,
    RequestExecutionException,
    Unavailable,
    WriteFailure,
    WriteTimeout,
)
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.connection import ConnectionException
from cassandra.policies import (
    ConstantSpeculativeExecutionPolicy,
    DCAwareRoundRobinPolicy,
    RetryPolicy,
    TokenAwarePolicy,
)
from cassandra.protocol import ErrorMessage
from cassandra.query import BatchStatement, BatchType, PreparedStatement, SimpleStatement, tuple_factory
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from cns_common.errors import CnsError, OutcomeUnknown, StartError, StoreUnavailable

REQUEST_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 10.0
HEARTBEAT_S = 5
PROTOCOL_VERSION = 4
"""Known to Cassandra 3 and later. Version 5 frames and checks each message again, in Python: 50 of 190 µs."""
SPECULATE_AFTER_S = 0.25
"""An idempotent statement is also sent to another replica if the first does not answer for this long."""
SPECULATE_MAX = 2
TRIES_MAX = 3
WAIT_S_MAX = 1.0
EXIT_CASSANDRA_UNUSABLE = 78

log = structlog.get_logger(__name__)

Row = tuple[Any, ...]
FAILURES = (NoHostAvailable, DriverException, ConnectionException, ErrorMessage)
"""The driver's errors, which have no common base class."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A CQL statement. An `idempotent` one may be repeated: run twice, it has the effect of one run."""

    cql: str
    idempotent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraAddress:
    """Contact points of a Cassandra cluster, with keyspace and data centre."""

    hosts: tuple[str, ...]
    port: int = 9042
    keyspace: str = "cns"
    data_centre: str = "datacenter1"


class _IdempotentRetryPolicy(RetryPolicy):  # type: ignore[misc]  # the driver ships no types
    """Retries only idempotent statements.

    The driver's own policy sends any statement whose connection broke to the next node. A conditional one that was
    applied by then would find its condition false, and be reported as not applied.
    """

    def on_request_error(
        self, query: Any, consistency: int, error: Exception, retry_num: int
    ) -> tuple[int, int | None]:
        if not query.is_idempotent:
            return self.RETHROW, None
        decision: tuple[int, int | None] = super().on_request_error(query, consistency, error, retry_num)
        return decision

    def on_unavailable(
        self, query: Any, consistency: int, required: int, alive: int, retry_num: int
    ) -> tuple[int, int | None]:
        """The lack of replicas may show after some of them accepted a conditional statement."""
        if not query.is_idempotent:
            return self.RETHROW, None
        decision: tuple[int, int | None] = super().on_unavailable(query, consistency, required, alive, retry_num)
        return decision


@dataclass(frozen=True, slots=True)
class _Connection:
    cluster: Cluster
    session: Session
    addresses: frozenset[str]
    """The addresses of the contact points' names, as resolved for this connection."""


class Cassandra:
    """One session. Only the loop that opened it may use it."""

    def __init__(self, address: CassandraAddress, connection: _Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._address = address
        self._connection = connection
        self._loop = loop
        self._reconnecting: asyncio.Task[None] | None = None
        self._prepared: dict[Statement, PreparedStatement] = {}
        self._replies: deque[tuple[asyncio.Future[list[Row]], list[Row] | None, Exception | None]] = deque()
        self._drain_asked = False
        self.statements = 0  # sent so far; each try and each batch counts as one

    @classmethod
    async def open(cls, address: CassandraAddress, *, keyspace: bool = True) -> Cassandra:
        """Connect. Without `keyspace` the session has none: it is to make it. Raises StartError."""
        try:
            connection = await asyncio.to_thread(_connect, address, keyspace)
        except FAILURES as error:
            where = ", ".join(f"{host}:{address.port}" for host in address.hosts)
            hint = f" (`cns schema apply` makes the keyspace {address.keyspace})" if keyspace else ""
            text = f"cannot use Cassandra at {where}: {_text(error)}{hint}"
            raise StartError(text, EXIT_CASSANDRA_UNUSABLE) from error
        return cls(address, connection, asyncio.get_running_loop())

    async def close(self) -> None:
        if self._reconnecting is not None:
            await asyncio.wait({self._reconnecting})
        await asyncio.to_thread(self._connection.cluster.shutdown)

    async def _reconnect(self) -> None:
        """Reconnect if the contact points' names have other addresses now: the driver resolves them only once, and a
        node may come back at another address, as containers do."""
        if await asyncio.to_thread(_addresses, self._address.hosts) == self._connection.addresses:
            return  # the driver reconnects to these by itself
        try:
            connection = await asyncio.to_thread(_connect, self._address, keyspace=True)
        except FAILURES as error:
            log.warning("cassandra.reconnect_failed", error=_text(error))
            return
        log.info("cassandra.addresses_changed", addresses=sorted(connection.addresses))
        before, self._connection = self._connection, connection
        self._prepared = {}
        await asyncio.to_thread(before.cluster.shutdown)

    # -- running ------------------------------------------------------------------------------------------------------

    async def run(self, statement: Statement, *values: object) -> list[Row]:
        """Run a statement. Returns the rows of the first page: every query has a limit below a page's size."""
        prepared = self._prepared.get(statement) or await self._prepare(statement)
        return await self._run(prepared.bind(values), statement.idempotent)

    async def run_each(self, statement: Statement, rows: Iterable[Sequence[object]]) -> list[list[Row]]:
        """Run one statement with several rows of values concurrently."""
        all_values = list(rows)
        if len(all_values) == 1:
            return [await self.run(statement, *all_values[0])]  # saves a task
        return list(await asyncio.gather(*[self.run(statement, *values) for values in all_values]))

    async def run_conditional(self, statement: Statement, *values: object) -> bool:
        """Run a conditional statement. Returns whether its condition held."""
        return bool((await self.run(statement, *values))[0][0])

    async def run_batch(self, parts: Sequence[tuple[Statement, Sequence[object]]], *, logged: bool) -> None:
        """Run a batch. An unlogged one, for rows of one partition, is one write; a logged one is atomic across
        partitions."""
        batch = BatchStatement(BatchType.LOGGED if logged else BatchType.UNLOGGED)
        for statement, values in parts:
            prepared = self._prepared.get(statement) or await self._prepare(statement)
            batch.add(prepared.bind(values))
        idempotent = batch.is_idempotent = all(statement.idempotent for statement, _ in parts)
        await self._run(batch, idempotent)

    async def run_schema(self, cql: str) -> list[Row]:
        """Run a statement that creates, changes or describes tables."""
        return await self._run(SimpleStatement(cql, is_idempotent=True), idempotent=True)

    async def _prepare(self, statement: Statement) -> PreparedStatement:
        try:
            prepared = await asyncio.to_thread(self._connection.session.prepare, statement.cql)
        except FAILURES as error:
            raise _translate(error, written=False) from error
        prepared.is_idempotent = statement.idempotent
        return self._prepared.setdefault(statement, prepared)

    async def _run(self, statement: object, idempotent: bool) -> list[Row]:
        try:
            return await self._try(statement)
        except FAILURES as error:
            if not idempotent:
                raise _translate(error, written=True) from error
        again = AsyncRetrying(
            stop=stop_after_attempt(TRIES_MAX - 1),
            wait=wait_random_exponential(multiplier=0.05, max=WAIT_S_MAX),
            retry=retry_if_exception_type(FAILURES),
            reraise=True,
        )
        try:
            return await again(self._try_again, statement)
        except FAILURES as error:
            if isinstance(error, NoHostAvailable) and (self._reconnecting is None or self._reconnecting.done()):
                self._reconnecting = asyncio.create_task(self._reconnect())
            raise _translate(error, written=True) from error

    async def _try_again(self, statement: object) -> list[Row]:
        return await self._try(statement)

    def _try(self, statement: object) -> asyncio.Future[list[Row]]:
        future: asyncio.Future[list[Row]] = self._loop.create_future()
        self.statements += 1
        self._connection.session.execute_async(statement).add_callbacks(
            self._succeeded, self._failed, callback_args=(future,), errback_args=(future,)
        )
        return future

    # -- in the driver's thread ---------------------------------------------------------------------------------------

    def _succeeded(self, rows: list[Row] | None, future: asyncio.Future[list[Row]]) -> None:
        self._reply((future, rows, None))

    def _failed(self, error: Exception, future: asyncio.Future[list[Row]]) -> None:
        self._reply((future, None, error))

    def _reply(self, reply: tuple[asyncio.Future[list[Row]], list[Row] | None, Exception | None]) -> None:
        self._replies.append(reply)
        if not self._drain_asked:  # the loop clears this before it drains, so that no reply is missed
            self._drain_asked = True
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._drain_asked = False
        while self._replies:
            future, rows, error = self._replies.popleft()
            if future.done():
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(rows or [])


def _connect(address: CassandraAddress, keyspace: bool) -> _Connection:
    """Connect; blocks."""
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(address.data_centre)),
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        retry_policy=_IdempotentRetryPolicy(),
        speculative_execution_policy=ConstantSpeculativeExecutionPolicy(SPECULATE_AFTER_S, SPECULATE_MAX),
        request_timeout=REQUEST_TIMEOUT_S,
        row_factory=tuple_factory,
    )
    addresses = _addresses(address.hosts)
    cluster = Cluster(
        address.hosts,
        port=address.port,
        protocol_version=PROTOCOL_VERSION,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=CONNECT_TIMEOUT_S,
        control_connection_timeout=CONNECT_TIMEOUT_S,
        idle_heartbeat_interval=HEARTBEAT_S,
    )
    try:
        return _Connection(cluster, cluster.connect(address.keyspace if keyspace else None), addresses)
    except FAILURES:
        cluster.shutdown()
        raise


def _addresses(hosts: Sequence[str]) -> frozenset[str]:
    """Resolve names; blocks. A name that does not resolve has no address."""
    found: set[str] = set()
    for host in hosts:
        with contextlib.suppress(socket.gaierror):
            found |= {str(information[4][0]) for information in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    return frozenset(found)


def _translate(error: Exception, *, written: bool) -> CnsError:
    """After the timeout of a write its outcome is unknown; the other known errors mean that nothing was written."""
    if written and isinstance(error, WriteTimeout | OperationTimedOut | WriteFailure):
        return OutcomeUnknown(f"Cassandra: {_text(error)}")
    if isinstance(error, Unavailable | ReadTimeout | NoHostAvailable | OperationTimedOut | RequestExecutionException):
        return StoreUnavailable(f"Cassandra: {_text(error)}")
    return OutcomeUnknown(f"Cassandra: {_text(error)}") if written else StoreUnavailable(f"Cassandra: {_text(error)}")


def _text(error: Exception) -> str:
    return str(error).replace(os.linesep, " ")[:300]
