"""The statements of each engine on Cassandra: conditional ones, reads, and removed rows that reads pass over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from cns_common.clock import Clock
from tests.conformance.drivers import WITHOUT_REDIS, Driver
from tests.conformance.support import DONE, QueueFixture, numbered
from tests.integration.cqs.engines.recorded_statements import (
    conditional,
    reads,
    record,
    recording,
    tables_read,
    tombstones,
)

pytestmark = pytest.mark.extended

ENGINES = ["bdqs", "cassieq", "pipes", WITHOUT_REDIS]
CONDITIONAL = {"bdqs": (0, 0, 0), "cassieq": (1, 1, 1), "pipes": (0, 1, 0), WITHOUT_REDIS: (0, 0, 0)}
"""Conditional statements of a send, receive and delete of three messages. `pipes`: the most, for the lease on a pipe,
once in three seconds."""
BATCHES, BATCH = 60, 10
PASSED_MAX = 60
"""The most removed rows of the 600 that a receive may pass over."""


@asynccontextmanager
async def _warm(directory: Path, engine: str) -> AsyncIterator[QueueFixture]:
    """A queue that was used before."""
    clock = Clock()
    async with Driver(engine, directory, clock).open() as opened:
        queue = QueueFixture(opened, clock)
        queue.q = replace(queue.q, older_handles=True)  # as tenants' queues have it
        await queue.send(b"warm")
        assert await queue.delete(*await queue.take()) == [DONE]
        yield queue


@pytest.mark.parametrize("engine", ENGINES)
async def test_conditional_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    record(monkeypatch)
    async with _warm(tmp_path, engine) as queue:
        with recording() as sent:
            await queue.send(*numbered(3))
        with recording() as received:
            messages = await queue.take(3)
        with recording() as deleted:
            assert await queue.delete(*messages) == [DONE] * 3
        found = tuple(len(conditional(some)) for some in (sent, received, deleted))
        print(engine, found, [len(some) for some in (sent, received, deleted)])
        if engine == "pipes":
            assert found <= CONDITIONAL[engine]
        else:
            assert found == CONDITIONAL[engine]


async def test_a_push_reads_nothing_of_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But the queue's generation, beside the write."""
    record(monkeypatch)
    async with _warm(tmp_path, "pipes") as queue:
        with recording() as sent:
            await queue.send(*numbered(10))
        assert (tables_read(sent), len(reads(sent)), conditional(sent)) == ({"cqs_queues"}, 1, [])


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_message_is_reached_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """To delete one costs as many statements among sixty messages as alone."""
    record(monkeypatch)
    async with _warm(tmp_path, engine) as queue:
        costs = []
        for depth in (1, 60):
            await queue.send(*numbered(depth))
            message = (await queue.drain())[depth // 2]
            with recording() as sent:
                assert await queue.delete(message) == [DONE]
            costs.append((len(sent), len(reads(sent))))
        assert costs[0] == costs[1]
        assert costs[0][1] <= 1, "one read by key"


@pytest.mark.parametrize("engine", ENGINES)
async def test_receives_do_not_read_what_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    sessions = record(monkeypatch)
    async with _warm(tmp_path, engine) as queue:
        for _ in range(BATCHES):
            await queue.send(*numbered(BATCH))
            assert await queue.delete(*await queue.take(BATCH)) == [DONE] * BATCH
            queue.advance(1_000)
        await queue.send(b"1", b"2")
        assert len(await queue.take(1)) == 1  # this receive may read more than usual
        with recording() as received:
            assert len(await queue.take(1)) == 1
        passed = await tombstones(sessions[-1], received)
        print(f"{engine}: {passed} tombstones in {len(reads(received))} reads")
        assert passed <= PASSED_MAX
