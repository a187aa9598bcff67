"""Where a message is now: the internal queues, looked through without taking anything out of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from cns.delivery import jobs
from cns.delivery.jobs import ConfirmationJob, DirectJob, EndpointJob, Job, PublishJob, Redelivery
from cns.notification import Notification
from cns_cli.explain.model import Place
from cqs.engines.contract import Engine, PeekedMessage
from cqs.internal_queues import internal_ref
from workers.consumers.quarantine import QuarantinedJob

PAGE_JOBS = 100
JOBS_MAX = 200_000
"""Looked at in one queue; what lies behind is not known."""
QUEUES = (
    jobs.PUBLISH_JOBS,
    jobs.FIFO_PUBLISH_JOBS,
    jobs.ENDPOINT_JOBS,
    jobs.FIFO_ENDPOINT_JOBS,
    jobs.LANES,
    jobs.REDELIVERY,
    jobs.QUARANTINE,
)
"""In the order that jobs go through them: one that moves on meanwhile is seen twice rather than never."""
NOT_WORKED_OFF = (jobs.LANES, jobs.QUARANTINE)
"""There a lease says nothing of work: the head of a lane is hidden until its endpoint may have room."""
DIRECT = ""
"""The target of what was published to a phone or a mobile endpoint: it has no ARN."""


class Queued(msgspec.Struct, frozen=True):
    """A job that is about the message, where it is, and the targets it is meant for."""

    place: Place
    job: Job
    targets: tuple[str, ...]


class Looked(msgspec.Struct, frozen=True):
    queued: tuple[Queued, ...]
    jobs: int
    unfinished: tuple[str, ...]  # queues with more than was looked at
    unreadable: int = 0  # jobs about the message that say nothing to this version


async def look(engine: Engine, message_id: str, now_ms: int) -> Looked:
    queued: list[Queued] = []
    unfinished: list[str] = []
    looked_at = unreadable = 0
    for name in QUEUES:
        found, seen, whole = await _look_into(engine, name, message_id, now_ms)
        readable = [one for one in found if one is not None]
        queued += readable
        unreadable += len(found) - len(readable)
        looked_at += seen
        if not whole:
            unfinished.append(name)
    return Looked(tuple(queued), looked_at, tuple(unfinished), unreadable)


def notification_in(queued: Queued) -> Notification | None:
    """What the job carries itself."""
    job = queued.job.job if isinstance(queued.job, Redelivery) else queued.job
    return None if isinstance(job, ConfirmationJob) else job.inline


async def _look_into(engine: Engine, name: str, message_id: str, now_ms: int) -> tuple[list[Queued | None], int, bool]:
    """What is about the message, how many jobs were looked at, and whether those were all."""
    q = internal_ref(name)
    found: dict[str, PeekedMessage] = {}  # by id: one that moves between two pages is seen twice
    groups: dict[str, list[int]] = {}
    cursor = ""
    seen = 0
    while seen < JOBS_MAX:
        page = await engine.peek(q, cursor, PAGE_JOBS, now_ms)
        seen += len(page.messages)
        jobs_there = map(_as_set_aside, page.messages) if name == jobs.QUARANTINE else page.messages
        found |= {one.id: one for one in jobs_there if one.id.startswith(message_id)}  # as every job's id does
        if q.fifo:
            for one in page.messages:
                groups.setdefault(one.group, []).append(one.sequence)
        cursor = page.cursor
        if not cursor:
            break
    queued = [_queued(name, one, groups.get(one.group, []), now_ms) for one in found.values()]
    return queued, seen, not cursor


def _queued(name: str, peeked: PeekedMessage, group: Sequence[int], now_ms: int) -> Queued | None:
    """None where it cannot be read, for which it lies in quarantine, or soon will."""
    try:
        job = jobs.decode(peeked.body)
    except msgspec.MsgspecError:
        return None
    hidden = peeked.visible_at_ms > now_ms
    place = Place(
        queue=name,
        job_id=peeked.id,
        under_way=hidden and name not in NOT_WORKED_OFF and peeked.deliveries > _leases_over(name, job),
        due_ms=max(peeked.visible_at_ms, now_ms),
        failures=job.failures if isinstance(job, Redelivery) else 0,
        behind=sum(sequence < peeked.sequence for sequence in group),
        all_subscriptions=isinstance(job, PublishJob),
        cursor=job.cursor if isinstance(job, PublishJob) else "",
    )
    return Queued(place, job, _targets(job))


def _as_set_aside(item: PeekedMessage) -> PeekedMessage:
    """The job that lies in quarantine, as it was where it came from."""
    set_aside = msgspec.msgpack.decode(item.body, type=QuarantinedJob)
    return replace(item, id=set_aside.id, body=set_aside.body)


def _leases_over(name: str, job: Job) -> int:
    """How many of its leases ended with the job put back where it was: in a FIFO queue it waits there for its retry."""
    if isinstance(job, PublishJob):
        return job.waits
    return job.failures + job.returns if isinstance(job, Redelivery) and name == jobs.FIFO_ENDPOINT_JOBS else 0


def _targets(job: Job) -> tuple[str, ...]:
    match job:
        case Redelivery():
            return _targets(job.job)
        case EndpointJob():
            return job.subscriptions
        case ConfirmationJob():
            return (job.subscription,)
        case DirectJob():
            return (DIRECT,)
        case PublishJob():
            return ()
