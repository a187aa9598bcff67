"""A producer on Cassandra is killed between the two steps of a page: its jobs are sent, and its publish job is not
settled. The page is repeated, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cns.delivery import jobs
from cns.delivery.jobs import PublishJob
from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cqs.engines.cluster import open_engine
from cqs.engines.contract import Change, Engine, Outcome, QueueRef
from cqs.internal_queues import internal_ref
from lab.harness.keyspace import emptied
from tests.integration.crashes.crashing_worker import (
    PAGES,
    TOPIC,
    SimulatedKill,
    crashing_worker_in,
    endpoint,
)

SUBSCRIPTIONS = 10
PAGE = 4
LAST_PAGE = SUBSCRIPTIONS - (PAGES - 1) * PAGE


class KillBetweenSteps:
    """Ends the process when it is about to settle its publish job for the n-th time: to write the next cursor into it,
    or to delete it. The page's jobs are sent by then."""

    def __init__(self, engine: Engine, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = page
        self._queue = internal_ref(jobs.PUBLISH_JOBS).id
        change, delete = engine.change, engine.delete

        async def killed_change(q: QueueRef, changes: Sequence[Change], now_ms: int) -> list[Outcome]:
            self._count(q)
            return await change(q, changes, now_ms)

        async def killed_delete(q: QueueRef, handles: Sequence[bytes], now_ms: int) -> list[Outcome]:
            self._count(q)
            return await delete(q, handles, now_ms)

        monkeypatch.setattr(engine, "change", killed_change)
        monkeypatch.setattr(engine, "delete", killed_delete)

    def _count(self, q: QueueRef) -> None:
        if q.id == self._queue:
            self.left -= 1
            if self.left == 0:
                raise SimulatedKill


@pytest.mark.parametrize("page", [1, *[pytest.param(n, marks=pytest.mark.extended) for n in range(2, PAGES + 1)]])
async def test_a_page_is_repeated_and_no_other(
    tmp_path: Path, cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    clock = Clock()
    async with (
        emptied(cassandra_address) as cassandra,
        open_engine(cassandra, "", clock) as engine,
        crashing_worker_in(tmp_path, monkeypatch, engine, clock) as worker,
    ):
        await worker.subscribed(SUBSCRIPTIONS)
        await worker.put(jobs.PUBLISH_JOBS, PublishJob("n", TOPIC.arn), 1)
        kill = KillBetweenSteps(engine, page, monkeypatch)
        await worker.run_until_done()
        assert kill.left <= 0, "the publish job was settled before"
        got = worker.endpoints.got
        assert set(got) == {endpoint(number) for number in range(SUBSCRIPTIONS)}
        repeated = [url for url, times in got.items() if times > 1]
        assert set(got.values()) <= {1, 2}
        assert len(repeated) == (LAST_PAGE if page == PAGES else PAGE)
