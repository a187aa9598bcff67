"""`cns status`: the whole service on one screen."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from cns_backend.backend import Backend
from cns_backend.services import queue_service
from cns_cli.doctor.inventory import places, queue_names, topic_arns
from cns_cli.options import Data, Json
from cns_cli.output import print_json, print_table
from cns_cli.overview.metrics import SAME_SETTINGS, MetricsPage, ServiceReader, ServiceUnreachable, other_store
from cns_cli.progress import Steps, open_steps
from cns_cli.remote.connection import EXIT_UNREACHABLE, Region, Url
from cns_cli.store_access import open_service_backend
from cns_common.configuration.settings import Settings, load_settings
from cns_common.errors import CnsError, StartError, StoreUnavailable
from cns_common.logs import set_up_logs
from cns_common.metrics.catalogue import BUILD_INFO, CIRCUIT_BREAKERS_OPEN, QUARANTINE_JOBS
from cns_common.sqlite.database import STORE_FILE

EXIT_RED = 1
QUEUES_SHOWN = 10
COUNTED_AT_ONCE = 50


class QueueStatus(msgspec.Struct, frozen=True, rename="camel"):
    arn: str
    visible: int
    in_flight: int
    delayed: int
    oldest_s: int

    @property
    def depth(self) -> int:
        return self.visible + self.in_flight + self.delayed


class StatusContents(msgspec.Struct, frozen=True, rename="camel"):
    """Counts of the store. `deepest` are the queues shown: the deepest and the one with the oldest message."""

    queues: int
    messages: int
    uncounted: int
    """The number of queues whose messages cannot be counted now: `messages` lacks them."""
    deepest: tuple[QueueStatus, ...]
    topics: int
    subscriptions: int
    unconfirmed: int


class Disk(msgspec.Struct, frozen=True, rename="camel"):
    directory: str
    free_bytes: int
    total_bytes: int
    store_bytes: int


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """A member is null if the service or the store cannot be read."""

    url: str
    form: str
    version: str | None
    health: dict[str, Any] | None
    open_breakers: int | None
    quarantined: int | None
    contents: StatusContents | None
    disk: Disk | None
    faults: tuple[str, ...]
    """The reasons why something could not be read."""


def status(
    url: Url = "",
    region: Region = "",
    data: Data = None,
    shown: Annotated[int, typer.Option("-n", min=1, max=1_000, help="Queues to show.")] = QUEUES_SHOWN,
    json: Json = False,
) -> None:
    """Show the service: form, version, health and its causes, processes, workers, breakers, quarantine, queues, topics,
    disk. Exit code 1 if its health is red, 69 if it does not answer.

    Example: cns status -n 20
    """
    set_up_logs("error", "command")
    settings = load_settings(data)
    found = asyncio.run(_collect(settings, ServiceReader(settings, url), region, shown))
    if json:
        print_json([found])
    else:
        _print(found)
    if found.health is None:
        sys.exit(EXIT_UNREACHABLE)
    sys.exit(EXIT_RED if found.health["status"] == "red" else 0)


async def _collect(settings: Settings, reader: ServiceReader, region: str, shown: int) -> Status:
    faults = []
    health: dict[str, Any] | None = None
    page: MetricsPage | None = None
    try:
        health = await asyncio.to_thread(reader.health)
        page = await asyncio.to_thread(reader.page)
    except ServiceUnreachable as error:
        faults.append(str(error))
    contents = None
    if page is not None and (other := other_store(settings, page)):
        faults.append(f"{other}: {SAME_SETTINGS}")
    elif settings.store == "cassandra" or (settings.data / STORE_FILE).exists():
        try:
            with open_steps("counting") as steps:
                contents = await _contents(settings, [region], shown, steps)
        except (StartError, CnsError) as error:
            faults.append(str(error))
    return Status(
        url=reader.url,
        form=settings.store if page is None else page.form,
        version=None if page is None else page.label(BUILD_INFO, "version"),
        health=health,
        open_breakers=None if page is None else round(page.total(CIRCUIT_BREAKERS_OPEN)),
        quarantined=None if page is None else round(max(page.by(QUARANTINE_JOBS, "process").values(), default=0)),
        contents=contents,
        disk=_disk(settings.data.absolute()),
        faults=tuple(faults),
    )


async def _contents(settings: Settings, regions: Iterable[str], shown: int, steps: Steps) -> StatusContents:
    async with open_service_backend(settings) as backend:
        found = await places(settings, backend, regions)
        states = [state async for state in _queues(settings, backend, found, steps)]
        topics = subscriptions = unconfirmed = 0
        for place in found:
            async for arn in topic_arns(backend, place):
                counts = await backend.subscriptions.counts(arn)
                topics += 1
                subscriptions += counts.pending + counts.confirmed
                unconfirmed += counts.pending
                steps.advance()
    queues = [state for state in states if isinstance(state, QueueStatus)]
    deepest = sorted(queues, key=lambda one: (-one.depth, one.arn))[:shown]
    oldest = max(queues, key=lambda one: one.oldest_s, default=None)
    if oldest is not None and oldest not in deepest:
        deepest[-1] = oldest
    messages = sum(one.depth for one in queues)
    uncounted = len(states) - len(queues)
    return StatusContents(len(states), messages, uncounted, tuple(deepest), topics, subscriptions, unconfirmed)


async def _queues(settings: Settings, backend: Backend, found: Iterable[Any], steps: Steps) -> Any:
    service = await queue_service(settings, backend)

    async def state(key: tuple[str, str, str]) -> QueueStatus | StoreUnavailable | None:
        """Returns None for a queue that is not shown."""
        view = await service.cache.find(key)
        if view is None or view.internal:
            return None
        now_ms = backend.clock.now_ms()
        try:
            counts = await view.engine.counts(view.ref, now_ms, oldest=True)
        except StoreUnavailable as error:
            return error
        age_s = max(0, now_ms - counts.oldest_born_at_ms) // 1_000 if counts.oldest_born_at_ms else 0
        steps.advance()
        return QueueStatus(view.arn, counts.visible, counts.in_flight, counts.delayed, age_s)

    for place in found:
        keys = [(place.account, place.region, name) async for name in queue_names(backend, place)]
        for begin in range(0, len(keys), COUNTED_AT_ONCE):
            for one in await asyncio.gather(*map(state, keys[begin : begin + COUNTED_AT_ONCE])):
                if one is not None:
                    yield one


def _disk(directory: Path) -> Disk | None:
    if not directory.exists():
        return None
    usage = shutil.disk_usage(directory)
    size = sum(path.stat().st_size for path in directory.glob(f"{STORE_FILE}*"))
    return Disk(str(directory), usage.free, usage.total, size)


class Line(NamedTuple):
    title: str
    text: str


def _print(found: Status) -> None:
    for fault in found.faults:
        print(f"cns: {fault}", file=sys.stderr)
    for line in lines(found):
        print(f"{line.title:<11} {line.text}")
    if found.contents is not None and found.contents.deepest:
        print()
        rows = [
            (one.arn, one.visible, one.in_flight, one.delayed, f"{one.oldest_s} s") for one in found.contents.deepest
        ]
        print_table(("queue", "visible", "in flight", "delayed", "oldest"), rows)


def lines(found: Status) -> list[Line]:
    version = "" if found.version is None else f"version {found.version}, "
    running = "not running" if found.health is None else f"{version}{found.health['status']}"
    told = [Line("service", f"{found.url}, {found.form} form, {running}")]
    if found.health is not None:
        told += [Line("cause", reason) for reason in found.health["reasons"]]
        told += [Line("process", _process(one)) for one in found.health["processes"]]
        told += [Line("worker", f"{one['process']}: {', '.join(one['roles'])}") for one in found.health["workers"]]
    if found.version is not None:
        hint = ": `cns doctor` names the endpoints" if found.open_breakers else ""
        told.append(Line("breakers", f"{found.open_breakers} open{hint}"))
        told.append(Line("quarantine", f"{found.quarantined} jobs"))
    if found.contents is not None:
        one = found.contents
        uncounted = f"; {one.uncounted} cannot be counted now" if one.uncounted else ""
        told.append(Line("queues", f"{one.queues}, with {one.messages} messages{uncounted}"))
        told.append(Line("topics", f"{one.topics}, {one.subscriptions} subscriptions, {one.unconfirmed} unconfirmed"))
    if found.disk is not None:
        disk = found.disk
        mib = 1024 * 1024
        text = f"{disk.free_bytes // mib} of {disk.total_bytes // mib} MiB free, store {disk.store_bytes // mib} MiB"
        told.append(Line("data", f"{disk.directory}: {text}"))
    return told


def _process(one: dict[str, Any]) -> str:
    return f"{one['name']} (pid {one['pid']}" + (f", {one['restarts']} restarts)" if one["restarts"] else ")")
