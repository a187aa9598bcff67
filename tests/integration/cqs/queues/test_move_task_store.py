"""The contract of the move task store: in the store host, from another process, and in Cassandra."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from cns_common.clock import Clock
from cns_common.rpc.protocol_proxy import handlers_of, methods_of, remote
from cns_common.rpc.rpc import RpcClient, Server
from cns_common.sqlite.database import Database
from cqs.redrive.task import MoveTask
from cqs.stores.cassandra.move_tasks import CassandraMoveTaskStore
from cqs.stores.contract import MoveTaskStore
from cqs.stores.embedded.move_tasks import EmbeddedMoveTaskStore
from lab.harness.keyspace import emptied


def task(task_id: str = "1", source: str = "a", **changes: object) -> MoveTask:
    made = MoveTask(id=task_id, account="0", source_arn=source, source_id="q", started_ms=int(task_id), to_move=3)
    return replace(made, **changes)


def ended(of: MoveTask, status: str = "COMPLETED") -> MoveTask:
    return replace(of, status=status, version=of.version + 1)


@pytest.fixture(params=["embedded", "remote", "cassandra"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MoveTaskStore]:
    if request.param == "cassandra":
        async with emptied(request.getfixturevalue("cassandra_address")) as cassandra:
            yield CassandraMoveTaskStore(cassandra)
        return
    database = Database(tmp_path, Clock())
    kept = EmbeddedMoveTaskStore(database)
    database.start(asyncio.get_running_loop())
    if request.param == "embedded":
        yield kept
    else:
        methods = methods_of(MoveTaskStore, "moves")
        server = Server(methods)
        server.answer(handlers_of(MoveTaskStore, "moves", kept))
        await server.start(tmp_path / "socket")
        client = RpcClient(tmp_path / "socket", methods)
        await client.start()
        yield remote(MoveTaskStore, "moves", client)
        await client.close()
        await server.close()
    await database.close()


async def test_a_source_has_one_active_task(store: MoveTaskStore) -> None:
    first = task()
    assert await store.create(first)
    assert not await store.create(task("2"))
    assert await store.create(task("3", "b"))
    cancelling = ended(first, "CANCELLING")
    assert await store.replace(cancelling, 1)
    assert not await store.create(task("2"))
    assert await store.replace(ended(cancelling, "CANCELLED"), 2)
    assert await store.create(task("2"))


async def test_of_racing_creations_one_wins(store: MoveTaskStore) -> None:
    created = await asyncio.gather(*[store.create(task(str(number))) for number in range(1, 6)])
    assert sum(created) == 1
    assert len(await store.active()) == 1


async def test_a_record_is_replaced_by_its_next_version_only(store: MoveTaskStore) -> None:
    first = task()
    await store.create(first)
    second = replace(first, moved=2, version=2)
    assert not await store.replace(second, 7)
    assert await store.replace(second, 1)
    assert not await store.replace(second, 1)
    assert await store.get("a", "1") == second
    assert await store.get("a", "2") is None
    assert await store.get("b", "1") is None


async def test_active_ones_are_found_until_they_end(store: MoveTaskStore) -> None:
    first, other = task(), task("2", "b")
    await store.create(first)
    await store.create(other)
    assert sorted(await store.active(), key=lambda one: one.id) == [first, other]
    await store.replace(ended(first, "FAILED"), 1)
    assert await store.active() == [other]


async def test_the_newest_come_first_and_the_oldest_go(store: MoveTaskStore) -> None:
    for number in range(1, 14):
        one = task(str(number))
        assert await store.create(one)
        await store.replace(ended(one), 1)
    assert [one.id for one in await store.newest("a", 3)] == ["13", "12", "11"]
    assert [one.id for one in await store.newest("a", 99)] == [str(number) for number in range(13, 3, -1)]
    assert await store.newest("b", 10) == []
