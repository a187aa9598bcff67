"""The engine on Cassandra and Redis, named `cqs`. Messages are rows in time buckets in Cassandra; a sorted set in Redis
says which of them are visible.

It follows the original CQS (seed 000), except that the cache need not be complete: losing it loses no message. FIFO
queues have a log instead (`fifo`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from cns_common.cassandra.background_work import background
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.redis.urls import read_server_urls
from cns_common.task_cancellation import cancel_and_wait, wait_at_most
from cqs.engines.cassandra.clock_skew import ClockSkew, open_clock_skew
from cqs.engines.cluster.engine import ClusterEngine
from cqs.engines.cluster.fifo.engine import FifoQueues
from cqs.engines.cluster.fifo.log_time import LogTime
from cqs.engines.cluster.known_queues import ClusterKnownQueues
from cqs.engines.cluster.ownership.announcements import MARK, Announcements
from cqs.engines.cluster.ownership.background import BackgroundWork
from cqs.engines.cluster.ownership.owned_queues import OwnedQueues
from cqs.engines.cluster.ownership.owner_checks import OwnerChecks
from cqs.engines.cluster.ownership.process_names import new_process_name
from cqs.engines.cluster.ownership.processes import LiveProcesses
from cqs.engines.cluster.ownership.used_queues import UsedQueues
from cqs.engines.cluster.reconciler import Reconciler
from cqs.engines.cluster.redis.cache import PREFIX
from cqs.engines.cluster.rows import MessageRows
from cqs.engines.cluster.servers.pool import CacheServers
from cqs.engines.cluster.servers.renewal import CONTENT_INTERVAL_S, ContentRenewal
from cqs.engines.cluster.servers.router import CacheRouter
from cqs.engines.cluster.servers.server import CacheParts, repeat
from cqs.engines.cluster.standard import StandardQueues
from cqs.engines.waiters import WaiterRegistry

__all__ = ["ClusterEngine", "open_engine"]

RENEW_INTERVAL_S = 1.0
"""The interval at which a process checks whether to renew its lease, or to read the list of live processes."""
ROUND_INTERVAL_S = 2.0
FIFO_POLL_INTERVAL_S = 1.0
"""The poll interval of FIFO queues with waiters while no Redis brings hints from other processes."""
MAINTENANCE_INTERVAL_S = 15.0
MAINTENANCE_ROWS = 500
START_S_MAX = 3.0
"""The time that the start waits for Redis before it continues without it."""
CLOSE_S_MAX = 10.0
"""Limit of each step of the end. Other processes take over what was not handed over as after a crash; messages whose
visibility was not saved may be delivered twice."""


@contextlib.asynccontextmanager
async def open_engine(
    cassandra: Cassandra,
    redis_urls: str,
    clock: Clock,
    prefix: str = PREFIX,
    skew: ClockSkew | None = None,
    *,
    rounds: bool = True,
    maintained: bool = True,
) -> AsyncIterator[ClusterEngine]:
    """The engine and its background tasks. `redis_urls` as in `CNS_REDIS`; without one it never uses Redis. `skew` is
    shared by the process's engines; without it, this engine measures its own. Without `rounds` the caller calls `renew`
    and `round` of its background work. Unless `maintained`, nothing is removed in the background, and the process is
    none of the live ones: it owns no queue, and nobody waits for it after its death."""
    if skew is None:
        async with (
            open_clock_skew(cassandra, clock) as own,
            open_engine(cassandra, redis_urls, clock, prefix, own, rounds=rounds, maintained=maintained) as alone,
        ):
            yield alone
        return
    waiters = WaiterRegistry(clock)

    def notify(queue_id: str, visible: int, due_ms: int | None) -> None:
        if queue_id.startswith(MARK):
            announcements.received(queue_id)
            return
        fifo.on_hint(queue_id)
        if queue_id in waiters:
            waiters.wake(queue_id, visible)
        if due_ms is not None and queue_id in waiters:
            waiters.wake_at(queue_id, due_ms)

    node = await new_process_name(cassandra)
    rows = MessageRows(cassandra, clock, node)
    parts = CacheParts(
        cassandra=cassandra, rows=rows, clock=clock, node=node, prefix=prefix, waiters=waiters, notify=notify
    )
    servers = CacheServers(parts, read_server_urls(redis_urls))
    caches = servers.router
    announcements = Announcements(caches.hint)
    known_queues, reconciler, work = _background_work(cassandra, clock, rows, caches, announcements)
    fifo = FifoQueues(cassandra, rows, known_queues, clock, LogTime(clock, skew), caches.hint)
    standard = StandardQueues(
        rows, caches, known_queues, waiters, reconciler.schedule_comparison, announcements.mass_delete, clock
    )
    engine = ClusterEngine(rows, servers, known_queues, standard, fifo, work, clock, skew)

    renewal = ContentRenewal(caches, known_queues, clock)
    await servers.start()
    if maintained:
        await work.start()
    tasks = [
        asyncio.create_task(repeat(lambda: fifo.poll_step(hinted=caches.has_hints), FIFO_POLL_INTERVAL_S)),
        asyncio.create_task(repeat(renewal.step, CONTENT_INTERVAL_S)),
    ]
    for step, pause_s in _steps(work, fifo, clock, rounds=rounds, maintained=maintained):
        tasks.append(asyncio.create_task(repeat(step, pause_s)))
    await servers.wait_until_open(START_S_MAX)
    try:
        yield engine
    finally:
        await cancel_and_wait(tasks)
        leaves = cassandra.leaves_site  # another site, with its own Redis, takes over
        for name, stop, needed in (
            ("renewal.finish", renewal.finish, leaves),
            ("servers.stop", servers.stop, True),
            ("standard.close", standard.close, True),
            ("fifo.close", fifo.close, True),
            ("known_queues.close", known_queues.close, True),
            ("work.leave", work.leave, True),
            ("servers.save_all_hidden", servers.save_all_hidden, leaves),
            ("servers.close", servers.close, True),
            ("rows.close", rows.close, True),
        ):
            if needed:
                await wait_at_most(CLOSE_S_MAX, name, stop())


def _steps(
    work: BackgroundWork, fifo: FifoQueues, clock: Clock, *, rounds: bool, maintained: bool
) -> list[tuple[Callable[[], Awaitable[None]], float]]:
    """The steps of the background work, with their pauses in seconds."""
    if not maintained:
        return []
    steps: list[tuple[Callable[[], Awaitable[None]], float]] = [(lambda: _expire(fifo, clock), MAINTENANCE_INTERVAL_S)]
    if rounds:
        steps += [(work.renew, RENEW_INTERVAL_S), (work.round, ROUND_INTERVAL_S)]
    return steps


async def _expire(fifo: FifoQueues, clock: Clock) -> None:
    with background("maintain"):
        await fifo.maintain_all(MAINTENANCE_ROWS, clock.now_ms())


def _background_work(
    cassandra: Cassandra, clock: Clock, rows: MessageRows, caches: CacheRouter, announcements: Announcements
) -> tuple[ClusterKnownQueues, Reconciler, BackgroundWork]:
    processes = LiveProcesses(cassandra, clock, rows.node, announcements.process)
    used = UsedQueues(cassandra)
    owned = OwnedQueues(used, processes, clock)
    announcements.on_process = processes.heard
    announcements.on_mass_delete = owned.schedule_check
    announcements.on_use = lambda number: owned.schedule_read([number])
    known_queues = ClusterKnownQueues(rows, caches, clock, processes, used)
    reconciler = Reconciler(rows, caches, known_queues, processes, used, clock)
    checks = OwnerChecks(rows, caches, used, processes, owned, clock)
    work = BackgroundWork(cassandra, clock, processes, owned, checks, reconciler, known_queues, announcements.use)
    return known_queues, reconciler, work
