"""`cns quarantine …`: lists, shows and releases the jobs in quarantine.

A command receives them like any job, so a second command does not see them, and then ends their leases.
"""

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
from cns.delivery.quarantined_job import QuarantinedJob, quarantine_id
from cns.queue_port.contract import LeasedJob, NewJob, QueuePort, Renewal
from cns_backend.queue_port import queue_port
from cns_backend.services import queue_service
from cns_cli.activity import recorded
from cns_cli.options import Data, Json
from cns_cli.output import print_json, print_value
from cns_cli.store_access import open_service_backend, run_command
from cns_common.configuration.settings import load_settings
from cns_common.ids import hex_id

LEASE_MS = 60_000
"""The time for which the jobs stay hidden if the command dies."""
JOBS_PER_RECEIVE = 10
JOBS_MAX = 1_000
"""The limit of jobs that one command reads and holds in memory."""
Result = TypeVar("Result")

app = typer.Typer(help="Jobs that failed too often, or cannot be read.", no_args_is_help=True, add_completion=False)


@app.command("list")
def quarantine_list(data: Data = None, json: Json = False) -> None:
    """Print all jobs in quarantine, one per line."""
    found = _run(data, _read)
    if not found:
        print("cns: no jobs in quarantine", file=sys.stderr)
    if json:
        print_json(map(_described, found))
        return
    for job in found:
        item = job.item
        print(job.id, timestamp_text(item.at_ms), item.queue, item.topic or "-", item.why, sep="  ")


@app.command("show")
def quarantine_show(
    job_id: Annotated[str, typer.Argument(metavar="ID")], data: Data = None, json: Json = False
) -> None:
    """Print one job: its queue, why it is in quarantine, and its content."""
    found = _find(_run(data, _read), job_id)
    item = found.item
    if json:
        print_json([{**_described(found), "content": _content(item.body)}])
        return
    facts = {
        "id": found.id,
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
    job_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` prints it, or `all`.")],
    data: Data = None,
    json: Json = False,
) -> None:
    """Return jobs to their queues and reset their attempts."""

    async def work(port: QueuePort) -> int:
        found = await _receive_all(port)
        chosen = [job for job in found if job_id in ("all", job.id)]
        for job in chosen:
            await port.settle(jobs.QUARANTINE, [job.lease.handle], [_new_job(job.item)])
        await _release_leases(port, [job.lease for job in found if job not in chosen])
        return len(chosen)

    with recorded(data, "ReleaseQuarantine", job_id):
        released = _run(data, work)
        if not released and job_id != "all":
            sys.exit(f"cns: there is no {job_id} in quarantine")
    print_value({"released": released}, f"{released} put back", json=json)


class LeasedItem(msgspec.Struct, frozen=True):
    """A job in quarantine, under a lease of this command."""

    lease: LeasedJob
    item: QuarantinedJob

    @property
    def id(self) -> str:
        return quarantine_id(self.item)


def _new_job(item: QuarantinedJob) -> NewJob:
    """Enqueue the job again. In a FIFO queue it is now last of its group."""
    return NewJob(item.queue, item.id, item.body, item.group, dedup=hex_id())


async def _read(port: QueuePort) -> list[LeasedItem]:
    """Return the jobs in quarantine, the oldest first."""
    found = await _receive_all(port)
    await _release_leases(port, [job.lease for job in found])
    return sorted(found, key=lambda job: job.item.at_ms)


async def _receive_all(port: QueuePort) -> list[LeasedItem]:
    found: list[LeasedItem] = []
    while len(found) < JOBS_MAX:
        leases = await port.receive(jobs.QUARANTINE, JOBS_PER_RECEIVE, LEASE_MS, 0)
        if not leases:
            break
        found += [LeasedItem(lease, msgspec.msgpack.decode(lease.body, type=QuarantinedJob)) for lease in leases]
    return found


async def _release_leases(port: QueuePort, leases: Sequence[LeasedJob]) -> None:
    for lease in leases:
        await port.settle(jobs.QUARANTINE, renewals=[Renewal(jobs.QUARANTINE, lease.handle, 0)])


def _find(found: Sequence[LeasedItem], job_id: str) -> LeasedItem:
    for job in found:
        if job.id == job_id:
            return job
    sys.exit(f"cns: there is no {job_id} in quarantine")


def _described(job: LeasedItem) -> dict[str, object]:
    item = job.item
    return {
        "id": job.id,
        "at": item.at_ms,
        "queue": item.queue,
        "job": item.id,
        "group": item.group or None,
        "topicArn": item.topic or None,
        "why": item.why,
        "bytes": len(item.body),
    }


def _content(body: bytes) -> object:
    """The job, or hexadecimal digits if this version cannot decode it."""
    try:
        return jobs.decode(body)
    except msgspec.MsgspecError:
        return body.hex()


def _text(body: bytes) -> str:
    content = _content(body)
    return content if isinstance(content, str) else msgspec.json.format(msgspec.json.encode(content)).decode()


def _run(data: Path | None, work: Callable[[QueuePort], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with _port(data) as port:
            return await work(port)

    return run_command(run)


@asynccontextmanager
async def _port(data: Path | None) -> AsyncIterator[QueuePort]:
    """Open the queue port that the workers of this service use."""
    settings = load_settings(data)
    async with open_service_backend(settings) as backend:
        port = await queue_port(settings, backend, await queue_service(settings, backend))
        try:
            yield port
        finally:
            await port.close()
