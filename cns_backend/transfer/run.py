"""A run of `cns migrate`: marks both stores, copies and compares everything, and closes the source."""

from __future__ import annotations

import time
from asyncio import sleep
from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext

import msgspec

from cns_backend.transfer.cassandra import CassandraSide, living_processes
from cns_backend.transfer.copying import check_engines, copy_kind, copy_queues, queues_of
from cns_backend.transfer.embedded import open_embedded_side
from cns_backend.transfer.moves import Move, Progress, find_move, take_back
from cns_backend.transfer.places import Places
from cns_backend.transfer.records import KINDS
from cns_backend.transfer.side import Side
from cns_common.cassandra.connection import STATEMENT_S
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.data_directory import EXIT_DATA_IN_USE, EXIT_DATA_UNUSABLE, unusable
from cns_common.errors import StartError
from cns_common.process import kill_points
from cns_common.process.kill_points import kill_point

ALONE, RECORDS = "alone", "records"
"""Steps of a run: no process of the cluster lives; all records are copied and compared."""

LATE_S = STATEMENT_S
"""A process that was cut off may have sent a statement before its row ended. After this time it has taken effect."""

Ask = Callable[[int, Move], None]
"""Gets about how many messages there are; ends the command by raising, unless the run may begin."""
Show = Callable[[str], None]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has moved. After one that was cut off, the rest counts only."""

    run: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    records: dict[str, int] = {}
    queues: int = 0
    messages: int = 0
    files: int = 0
    seconds: float = 0.0


async def migrate(places: Places, ask: Ask, show: Show) -> Moved:
    """Raises StartError, before anything is changed, if a service runs or a store cannot be moved there; also where a
    disk is full."""
    try:
        return await _migrate(places, ask, show)
    except OSError as error:
        raise unusable(f"the move to {places.target_data.absolute()} stopped", error) from error


async def _migrate(places: Places, ask: Ask, show: Show) -> Moved:
    began_s = time.monotonic()
    async with AsyncExitStack() as stack:
        cassandra, source, target = await stack.enter_async_context(places.opened())
        move = await find_move(source, target)
        done = Moved(run=move.run, source=source.where, target=target.where)
        progress = Progress(places.directory, move.run, arrived=move.arrived)
        if not move.copied:
            cluster = CassandraSide(cassandra, places.cluster)
            leaving: Side = cluster
            if places.to_cluster:
                leaving = await stack.enter_async_context(open_embedded_side(places.embedded))
            places.check_key()
            if not progress.has(ALONE):
                await _check_stores(places, cassandra, move, leaving)
            ask(await leaving.count_messages(), move)
            began_s = time.monotonic()  # the caller may have thought about it
            with nullcontext() if places.to_cluster else places.locked():  # no service begins in the target
                await _begin(places, cassandra, move, progress, leaving)
                if not progress.has(RECORDS):
                    await places.clear(cassandra)
            await stack.enter_async_context(cluster.opened())
            arriving: Side = cluster
            if not places.to_cluster:
                arriving = await stack.enter_async_context(open_embedded_side(places.embedded))
            places.place_key()
            done = await _copy(places, leaving, arriving, progress, show, done)
            await move.close_source()
            kill_point(kill_points.MOVE_SOURCE_CLOSED)
        await move.open_target()
        kill_point(kill_points.MOVE_TARGET_OPENED)
        progress.remove()
    return msgspec.structs.replace(done, seconds=time.monotonic() - began_s)


async def _check_stores(places: Places, cassandra: Cassandra, move: Move, leaving: Side) -> None:
    await _check_alone(cassandra)
    content = await places.content(cassandra)
    if content:
        raise StartError(f"{content}: a move needs an empty target", EXIT_DATA_UNUSABLE)
    check_engines(await queues_of(leaving), leaving, move.target.where)


async def _check_alone(cassandra: Cassandra) -> None:
    living = await living_processes(cassandra)
    if living:
        named = ", ".join(sorted(living))
        raise StartError(f"processes of the cluster live, or died seconds ago: {named}; stop them", EXIT_DATA_IN_USE)


async def _begin(places: Places, cassandra: Cassandra, move: Move, progress: Progress, leaving: Side) -> None:
    """Mark both stores, and check them once more: a service may have run since, but finds a mark from now on."""
    if progress.has(ALONE):
        return  # both are marked
    now_ms = Clock().real_ms()
    progress.remove()  # steps count while the target has its mark
    try:
        await move.begin(now_ms)
        kill_point(kill_points.MOVE_SOURCE_MARKED)
        await move.arrive(now_ms)
        kill_point(kill_points.MOVE_TARGET_MARKED)
        await _check_stores(places, cassandra, move, leaving)
        if not places.to_cluster:
            await sleep(LATE_S)
    except StartError:
        await move.cancel()  # nothing is written yet
        raise
    progress.add(ALONE)


async def _copy(places: Places, leaving: Side, arriving: Side, progress: Progress, show: Show, done: Moved) -> Moved:
    records: dict[str, int] = {}
    if not progress.has(RECORDS):
        await leaving.backend.accounts.keys()  # raises StartError if the master key is another one
        for kind in KINDS:
            show(kind.name)
            records[kind.name] = await copy_kind(leaving, arriving, kind)
            kill_point(kill_points.MOVE_KIND_COPIED)
        progress.add(RECORDS)
        kill_point(kill_points.MOVE_RECORDS_COPIED)
    queues, messages = await copy_queues(leaving, arriving, progress, show)
    show("files")
    files = places.copy_files()
    kill_point(kill_points.MOVE_FILES_COPIED)
    return msgspec.structs.replace(done, records=records, queues=queues, messages=messages, files=files)


async def reopen(places: Places, ask: Callable[[str], None]) -> tuple[str, str]:
    """Take the source back, and close the target if it has something. Returns both. Raises StartError while either
    serves."""
    async with AsyncExitStack() as stack:
        cassandra, source, target = await stack.enter_async_context(places.opened())
        stack.enter_context(places.locked())
        await _check_alone(cassandra)
        content = await places.content(cassandra)
        await take_back(source, target, ask, has_content=bool(content))
        return source.where, target.where if content else ""
