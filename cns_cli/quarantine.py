"""`cns quarantine …`: jobs that were set aside, to be looked at and to be put back.

They are received as any job is, which hides them from a second command that looks at the same time, and given back."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from cns.delivery import jobs
from cns.delivery.envelope import timestamp_text
from cns.queue_port.contract import LeasedJob, NewJob, QueuePort, Renewal
from cns_backend.queue_port import queue_port
from cns_backend.services import queue_service
from cns_cli.options import Data
from cns_cli.parts import parts_of
from cns_cli.store import run_command
from cns_common.configuration.settings import load_settings
from cns_common.ids import hex_id
from workers.consumers.quarantine import QuarantinedJob, quarantine_id

HOLD_MS = 60_000
"""How long a command that dies leaves them hidden."""
JOBS_A_RECEIVE = 10
LOOK_MAX = 1_000
"""So many at most are looked at by one command: they are held in memory."""
Result = TypeVar("Result")

app = typer.Typer(help="Jobs that were begun too often and never finished.", no_args_is_help=True, add_completion=False)


@app.command("list")
def quarantine_list(data: Data = None) -> None:
    """Print all that were set aside, a line each."""
    found = _run(data, _look)
    if not found:
        print("cns: no jobs in quarantine", file=sys.stderr)
    for kept in found:
        item = kept.item
        print(kept.id, timestamp_text(item.at_ms), item.queue, item.topic or "-", item.why, sep="  ")


@app.command("show")
def quarantine_show(job_id: Annotated[str, typer.Argument(metavar="ID")], data: Data = None) -> None:
    """Print one: where it was, why it is here, and what it says."""
    kept = _one(_run(data, _look), job_id)
    item = kept.item
    facts = {
        "id": kept.id,
        "time": timestamp_text(item.at_ms),
        "queue": item.queue,
        "job": item.id,
        "group": item.group,
        "topic": item.topic,
        "why": item.why,
        "bytes": str(len(item.body)),
    }
    for name, fact in facts.items():
        if fact:
            print(f"{name}: {fact}")
    print()
    print(_text(item.body))


@app.command("release")
def quarantine_release(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` prints it; `all` is every one.")],
    data: Data = None,
) -> None:
    """Put jobs back into their queues, as if they had never been begun."""

    async def work(port: QueuePort) -> int:
        found = await _hold(port)
        chosen = [kept for kept in found if job_id in ("all", kept.id)]
        for kept in chosen:
            await port.settle(jobs.QUARANTINE, [kept.held.handle], [_put(kept.item)])
        await _give_back(port, [kept.held for kept in found if kept not in chosen])
        return len(chosen)

    released = _run(data, work)
    if not released and job_id != "all":
        sys.exit(f"cns: there is no {job_id} in quarantine")
    print(f"{released} put back")


class Kept(msgspec.Struct, frozen=True):
    """A job in quarantine, under lease."""

    held: LeasedJob
    item: QuarantinedJob

    @property
    def id(self) -> str:
        return quarantine_id(self.item)


def _put(item: QuarantinedJob) -> NewJob:
    """In a FIFO queue it comes behind what its group has by now."""
    return NewJob(item.queue, item.id, item.body, item.group, dedup=hex_id())


async def _look(port: QueuePort) -> list[Kept]:
    found = await _hold(port)
    await _give_back(port, [kept.held for kept in found])
    return sorted(found, key=lambda kept: kept.item.at_ms)


async def _hold(port: QueuePort) -> list[Kept]:
    found: list[Kept] = []
    while len(found) < LOOK_MAX:
        held = await port.receive(jobs.QUARANTINE, JOBS_A_RECEIVE, HOLD_MS, 0)
        if not held:
            break
        found += [Kept(one, msgspec.msgpack.decode(one.body, type=QuarantinedJob)) for one in held]
    return found


async def _give_back(port: QueuePort, held: Sequence[LeasedJob]) -> None:
    for one in held:
        await port.settle(jobs.QUARANTINE, renewals=[Renewal(jobs.QUARANTINE, one.handle, 0)])


def _one(found: Sequence[Kept], job_id: str) -> Kept:
    for kept in found:
        if kept.id == job_id:
            return kept
    sys.exit(f"cns: there is no {job_id} in quarantine")


def _text(body: bytes) -> str:
    """As JSON; what is no job of this version, in hexadecimal digits."""
    try:
        job = jobs.decode(body)
    except msgspec.MsgspecError:
        return body.hex()
    return msgspec.json.format(msgspec.json.encode(job)).decode()


def _run(data: Path | None, work: Callable[[QueuePort], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with _port(data) as port:
            return await work(port)

    return run_command(run)


@asynccontextmanager
async def _port(data: Path | None) -> AsyncIterator[QueuePort]:
    """The one that the workers of this service have."""
    settings = load_settings(data)
    async with parts_of(settings) as parts:
        port = await queue_port(settings, parts, await queue_service(settings, parts))
        try:
            yield port
        finally:
            await port.close()
