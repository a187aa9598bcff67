"""Cassandra from one event loop: prepared statements in, rows out; the driver's errors become this service's.

The driver answers in a thread of its own. All replies of a burst wake the loop once.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from cassandra import ConsistencyLevel, OperationTimedOut
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import ErrorMessage
from cassandra.query import BatchStatement, BatchType, BoundStatement, PreparedStatement, SimpleStatement
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from cns_common.cassandra.background_work import MEMBERSHIP, background_work
from cns_common.cassandra.connection import STATEMENT_S, CassandraAddress, CassandraConnection, connect, resolved
from cns_common.cassandra.failures import FAILURES, NO_ANSWER, failure_of_tries, text_of, translated
from cns_common.cassandra.hang_detector import ResponseWatch
from cns_common.cassandra.site_guard import OneSite, SiteGuard
from cns_common.cassandra.write_timestamps import WriteDates
from cns_common.errors import EXIT_CASSANDRA_UNUSABLE, CnsError, OutcomeUnknown, StartError, StoreUnavailable
from cns_common.task_cancellation import ignore_outcome, in_daemon, wait_at_most

CONDITIONAL_S = 4.0
"""A try of a conditional statement. Cassandra itself gives up earlier; only a node that hangs does not."""
PREPARE_S = 4.0
"""A statement is prepared once in each process, by its first call."""
SCHEMA_S = 60.0
SCAN_ROWS = 1_000
PROBE_S = 2.0
RETRY_S_MIN = 0.5
"""A statement with less time left is not tried again."""
TRIES_MAX = 3
WAIT_S_MAX = 1.0
CLOSE_S_MAX = 5.0
"""The longest of each wait when a session closes: for writes to both sites, a new connection, the driver."""

log = structlog.get_logger(__name__)

Row = tuple[Any, ...]


class Consistency(enum.IntEnum):
    """The replicas that must answer a statement, by the driver's numbers."""

    ONE = ConsistencyLevel.LOCAL_ONE
    QUORUM = ConsistencyLevel.LOCAL_QUORUM
    ANYWHERE = ConsistencyLevel.ONE
    """One replica of any data centre."""
    ALL = ConsistencyLevel.ALL
    EACH = ConsistencyLevel.EACH_QUORUM
    """A quorum of each data centre."""
    SERIAL = ConsistencyLevel.LOCAL_SERIAL
    """A read at this level completes conditional writes that are under way."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A CQL statement. An `idempotent` one may be repeated: run twice, it has the effect of one run.

    A conditional statement is idempotent if its values are unique and its caller looks for them in the answer, which
    may be that of a second run: it shows what the first one wrote.
    """

    cql: str
    idempotent: bool = True
    try_s: float = math.inf
    """The limit of one try, if it may be repeated."""
    consistency: Consistency = Consistency.QUORUM
    across_sites: bool = False
    """Whether the replicas of all data centres decide a conditional statement, and a quorum of each stores it."""

    @property
    def writes(self) -> bool:
        return not self.cql.startswith("SELECT")

    @property
    def conditional(self) -> bool:
        return self.writes and " IF " in self.cql


class Cassandra:
    """One session. Only the loop that opened it may use it."""

    def __init__(
        self,
        address: CassandraAddress,
        connection: CassandraConnection,
        loop: asyncio.AbstractEventLoop,
        dates: WriteDates,
        site: SiteGuard,
    ) -> None:
        self.dates = dates
        self._site = site
        self.is_away: Callable[[], bool] = lambda: False
        """Whether the others may take this process for dead: then only its renewal uses the store."""
        self.rejoin: Callable[[], Awaitable[None]] | None = None
        """That renewal: calls that waited for Cassandra wait for it, too. It may raise CnsError."""
        self._address = address
        self._connection = connection
        self._loop = loop
        self._reconnecting: asyncio.Task[None] | None = None
        self._prepared: dict[Statement, PreparedStatement] = {}
        self._replies: deque[tuple[asyncio.Future[list[Row]], list[Row] | None, Exception | None]] = deque()
        self._drain_asked = False
        self.watch = ResponseWatch(self._probe, self._rejoin, loop)
        self._site_writes: set[asyncio.Task[list[Row]]] = set()
        self.statements = 0  # sent so far; each try and each batch counts as one
        self.background_statements: Counter[str] = Counter()  # those of them that no caller waits for, by kind of work

    @classmethod
    async def open(
        cls, address: CassandraAddress, *, keyspace: bool = True, site: SiteGuard | None = None
    ) -> Cassandra:
        """Connect. Without `keyspace` the session can create one. `site` is asked before each statement. Raises
        StartError."""
        dates = WriteDates()
        try:
            connection = await asyncio.to_thread(connect, address, dates, keyspace)
        except FAILURES as error:
            where = ", ".join(f"{host}:{address.port}" for host in address.hosts)
            hint = f" (`cns schema apply` makes the keyspace {address.keyspace})" if keyspace else ""
            text = f"cannot use Cassandra at {where}: {text_of(error)}{hint}"
            raise StartError(text, EXIT_CASSANDRA_UNUSABLE) from error
        return cls(address, connection, asyncio.get_running_loop(), dates, site or OneSite())

    @property
    def activation(self) -> int:
        """The number of the activation of this process's site; 0 if there is only one site."""
        return self._site.activation

    @property
    def leaves_site(self) -> bool:
        """Whether this process ends its work because another site is to be active."""
        return self._site.leaving

    async def close(self) -> None:
        """Close. Each wait takes at most `CLOSE_S_MAX`; the driver's threads may go on for longer."""
        for last in (self._site_writes, {self._reconnecting} if self._reconnecting is not None else set()):
            if last:
                await asyncio.wait(last, timeout=CLOSE_S_MAX)
        if self._site_writes:  # their outcome is unknown
            await wait_at_most(CLOSE_S_MAX, "cassandra.missed", self._site.missed())
        await self.watch.close()
        await wait_at_most(CLOSE_S_MAX, "cassandra.close", in_daemon(self._connection.cluster.shutdown))

    async def _reconnect(self) -> None:
        """Reconnect if the contact points' names have other addresses now: the driver resolves them only once, and a
        node may come back at another address, as containers do."""
        if await asyncio.to_thread(resolved, self._address.hosts) == self._connection.addresses:
            return  # the driver reconnects to these by itself
        try:
            connection = await asyncio.to_thread(connect, self._address, self.dates, keyspace=True)
        except FAILURES as error:
            log.warning("cassandra.reconnect_failed", error=text_of(error))
            return
        log.info("cassandra.addresses_changed", addresses=sorted(connection.addresses))
        before, self._connection = self._connection, connection
        self._prepared = {}
        await in_daemon(before.cluster.shutdown)

    # -- running ------------------------------------------------------------------------------------------------------

    async def run(self, statement: Statement, *values: object) -> list[Row]:
        """Run a statement. Returns the rows of the first page: every query has a limit below a page's size."""
        prepared = self._prepared.get(statement) or await self._prepare(statement)
        bound = prepared.bind(values)
        everywhere = self._goes_everywhere(statement.consistency) and statement.writes
        if everywhere:
            bound.consistency_level = int(Consistency.EACH)
        if not statement.idempotent:
            running = self._run_once(bound, CONDITIONAL_S)
        else:
            running = self._run(
                bound, STATEMENT_S, min(statement.try_s, CONDITIONAL_S) if statement.conditional else statement.try_s
            )
        return await (self._recorded(running) if everywhere else running)

    async def scan(self, statement: Statement) -> AsyncIterator[Row]:
        """Run a query of a whole table, page by page: for rare work only. Raises StoreUnavailable."""
        bound = (self._prepared.get(statement) or await self._prepare(statement)).bind(())
        bound.fetch_size = SCAN_ROWS
        place: bytes | None = None
        while True:
            page = await self._scan_page(bound, place)
            for row in page.current_rows:
                yield row
            if not page.has_more_pages:
                return
            place = page.paging_state

    async def _scan_page(self, bound: BoundStatement, place: bytes | None) -> Any:
        execute = partial(self._connection.session.execute, bound, timeout=STATEMENT_S, paging_state=place)
        for left in reversed(range(TRIES_MAX)):
            self._check()
            self.statements += 1
            try:
                return await asyncio.to_thread(execute)
            except FAILURES as error:
                if not left:
                    raise translated(error, written=False) from error
        raise AssertionError  # the loop returns or raises

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
        """Run a batch, at the consistency of its first statement. An unlogged one, for rows of one partition, is one
        write; a logged one is atomic across partitions."""
        level = parts[0][0].consistency if parts else Consistency.QUORUM
        everywhere = self._goes_everywhere(level)
        level = Consistency.EACH if everywhere else level
        batch = BatchStatement(BatchType.LOGGED if logged else BatchType.UNLOGGED, consistency_level=int(level))
        for statement, values in parts:
            prepared = self._prepared.get(statement) or await self._prepare(statement)
            batch.add(prepared.bind(values))
        batch.is_idempotent = all(statement.idempotent for statement, _ in parts)
        running = (self._run if batch.is_idempotent else self._run_once)(batch, STATEMENT_S)
        await (self._recorded(running) if everywhere else running)

    async def run_conditional_batch(self, parts: Sequence[tuple[Statement, Sequence[object]]]) -> bool:
        """Run conditional statements of one partition: all of them if all their conditions hold. Returns whether they
        were applied."""
        everywhere = self._goes_everywhere(Consistency.QUORUM)
        level = Consistency.EACH if everywhere else Consistency.QUORUM
        batch = BatchStatement(
            BatchType.UNLOGGED,
            consistency_level=int(level),
            serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        )
        for statement, values in parts:
            batch.add((self._prepared.get(statement) or await self._prepare(statement)).bind(values))
        batch.is_idempotent = False
        running = self._run_once(batch, CONDITIONAL_S)
        return bool((await (self._recorded(running) if everywhere else running))[0][0])

    def _goes_everywhere(self, level: Consistency) -> bool:
        """Whether a write of this level waits for a quorum of each site."""
        return self._site.writes_everywhere and level is Consistency.QUORUM

    async def _recorded(self, write: Coroutine[Any, Any, list[Row]]) -> list[Row]:
        """Run a write that waits for each site. If its outcome is unknown, this site alone may have it, and a later
        read here may accept it: so the gap is recorded first, even if the caller is cancelled."""
        task = asyncio.create_task(self._record_unknown(write))
        self._site_writes.add(task)
        task.add_done_callback(self._site_writes.discard)
        task.add_done_callback(ignore_outcome)
        return await asyncio.shield(task)

    async def _record_unknown(self, write: Coroutine[Any, Any, list[Row]]) -> list[Row]:
        try:
            return await write
        except OutcomeUnknown:
            await self._site.missed()
            raise

    async def run_on_each_node(self, cql: str) -> dict[str, list[Row]]:
        """Ask each live node of this data centre for rows that only it has, such as those of `system_views`. Returns
        them by the node's address, without nodes that do not answer. Raises StoreUnavailable if none does."""
        self._check()
        self.watch.check()
        statement = SimpleStatement(cql, is_idempotent=True, consistency_level=ConsistencyLevel.ONE)
        everywhere = self._connection.cluster.metadata.all_hosts()
        nodes = [node for node in everywhere if node.is_up and node.datacenter == self._address.data_centre]
        answers = await asyncio.gather(
            *[self._send(statement, PROBE_S, node) for node in nodes], return_exceptions=True
        )
        found: dict[str, list[Row]] = {}
        for node, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, list):
                found[str(node.address)] = answer
            elif not isinstance(answer, FAILURES):
                raise answer
        if not found:
            raise StoreUnavailable("no Cassandra node answers")
        return found

    async def run_schema(self, cql: str) -> list[Row]:
        """Run a statement that creates, changes or describes tables."""
        return await self._run(SimpleStatement(cql, is_idempotent=True), SCHEMA_S)

    async def _prepare(self, statement: Statement) -> PreparedStatement:
        self.watch.check()
        sent_s = self._loop.time()
        preparing = asyncio.ensure_future(asyncio.to_thread(self._connection.session.prepare, statement.cql))
        await asyncio.wait({preparing}, timeout=PREPARE_S)
        if not preparing.done():
            preparing.add_done_callback(ignore_outcome)  # the thread cannot be stopped; the driver ends it
            self.watch.unanswered(sent_s)
            raise StoreUnavailable("Cassandra does not prepare a statement in time")
        try:
            prepared = preparing.result()
        except FAILURES as error:
            raise translated(error, written=False) from error
        self.watch.answered()
        prepared.is_idempotent = statement.idempotent
        prepared.consistency_level = int(Consistency.EACH if statement.across_sites else statement.consistency)
        if statement.conditional:
            serial = ConsistencyLevel.SERIAL if statement.across_sites else ConsistencyLevel.LOCAL_SERIAL
            prepared.serial_consistency_level = serial
        return self._prepared.setdefault(statement, prepared)

    async def _run_once(self, statement: object, limit_s: float) -> list[Row]:
        try:
            return await self._try(statement, limit_s)
        except FAILURES as error:
            raise _failure_of(statement, error) from error

    async def _run(self, statement: object, limit_s: float, try_s: float = math.inf) -> list[Row]:
        """Run a statement that may be repeated."""
        until_s = self._loop.time() + limit_s
        failures: list[CnsError] = []
        try:
            return await self._try_again(statement, until_s, try_s, failures)
        except FAILURES as error:
            if self._time_left_s(until_s) < RETRY_S_MIN:
                raise failures[0] from error
        again = AsyncRetrying(
            stop=stop_after_attempt(TRIES_MAX - 1),
            wait=wait_random_exponential(multiplier=0.05, max=WAIT_S_MAX),
            retry=retry_if_exception(lambda error: self._is_worth_a_try(error, until_s)),
            reraise=True,
        )
        try:
            return await again(self._try_again, statement, until_s, try_s, failures)
        except FAILURES as error:
            if isinstance(error, NoHostAvailable):
                self.watch.unanswered(until_s - limit_s)
            raise failure_of_tries(failures) from error
        except StoreUnavailable as silent:
            raise failure_of_tries([*failures, silent]) from None

    def _is_worth_a_try(self, error: BaseException, until_s: float) -> bool:
        return isinstance(error, FAILURES) and self._time_left_s(until_s) >= RETRY_S_MIN + WAIT_S_MAX

    def _time_left_s(self, until_s: float) -> float:
        return until_s - self._loop.time()

    async def _try_again(self, statement: object, until_s: float, try_s: float, failures: list[CnsError]) -> list[Row]:
        try:
            return await self._try(statement, min(try_s, self._time_left_s(until_s)))
        except FAILURES as error:
            failures.append(_failure_of(statement, error))
            raise

    async def _try(self, statement: object, limit_s: float) -> list[Row]:
        self._check()
        self.watch.check()
        sent_s = self._loop.time()
        try:
            return await self._send(statement, limit_s)
        except OperationTimedOut:
            self.watch.unanswered(sent_s)
            raise

    def _send(self, statement: object, limit_s: float, node: object = None) -> asyncio.Future[list[Row]]:
        """To `node`, or to those that the driver chooses."""
        future: asyncio.Future[list[Row]] = self._loop.create_future()
        self.statements += 1
        work = background_work.get()
        if work:
            self.background_statements[work] += 1
        self._connection.session.execute_async(statement, timeout=limit_s, host=node).add_callbacks(
            self._succeeded, self._failed, callback_args=(future,), errback_args=(future,)
        )
        return future

    def _check(self) -> None:
        self._site.check()
        if self.is_away() and background_work.get() != MEMBERSHIP:
            raise StoreUnavailable(
                "this process was stopped or cut off: it is not one of the living processes again yet"
            )

    async def _probe(self) -> bool:
        try:
            await self._send(SimpleStatement("SELECT key FROM system.local", is_idempotent=True), PROBE_S)
        except FAILURES as error:
            if isinstance(error, NoHostAvailable) and (self._reconnecting is None or self._reconnecting.done()):
                self._reconnecting = asyncio.create_task(self._reconnect())
            return isinstance(error, ErrorMessage)
        return True

    async def _rejoin(self) -> None:
        if self.rejoin is not None and self.is_away():
            with contextlib.suppress(CnsError):  # it is tried again each second
                await self.rejoin()

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
                if not isinstance(error, NO_ANSWER):
                    self.watch.answered()
                future.set_exception(error)
            else:
                self.watch.answered()
                future.set_result(rows or [])


def _failure_of(statement: object, error: Exception) -> CnsError:
    """The failure of one try."""
    conditional = getattr(statement, "serial_consistency_level", None) is not None
    return translated(error, written=True, conditional=conditional)
