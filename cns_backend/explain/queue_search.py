"""Finds the jobs with a message in the internal queues, without receiving them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from cns.delivery import jobs
from cns.delivery.jobs import ConfirmationJob, DirectJob, EndpointJob, Job, PublishJob, Redelivery
from cns.delivery.quarantined_job import QuarantinedJob
from cns.notification import Notification
from cns_backend.explain.model import JobLocation
from cqs.engines.contract import Engine, PeekedMessage
from cqs.internal_queues import internal_ref

PAGE_JOBS = 100
JOBS_MAX = 200_000
"""The limit of jobs searched in one queue."""
QUEUES = (
    jobs.PUBLISH_JOBS,
    jobs.FIFO_PUBLISH_JOBS,
    jobs.ENDPOINT_JOBS,
    jobs.FIFO_ENDPOINT_JOBS,
    jobs.LANES,
    jobs.REDELIVERY,
    jobs.QUARANTINE,
)
"""The queues in the order in which jobs pass through them, so that a job that moves during the search is found twice
rather than never."""
HIDDEN_WITHOUT_WORKER = (jobs.LANES, jobs.QUARANTINE)
"""Queues whose hidden jobs no worker has. The head of a lane, the queue of one endpoint, is hidden until there is
room."""
DIRECT = ""
"""The target of a publish to a phone number or a mobile endpoint, which has no subscription ARN."""


class FoundJob(msgspec.Struct, frozen=True):
    """A job with the message, its location, and the subscription ARNs that it is for."""

    location: JobLocation
    job: Job
    targets: tuple[str, ...]


class QueueSearch(msgspec.Struct, frozen=True):
    """The result of a search of all internal queues."""

    found: tuple[FoundJob, ...]
    jobs: int  # that were searched
    unfinished: tuple[str, ...]  # queues with more jobs than were searched
    unreadable: int = 0  # jobs with the message that this version cannot decode


async def search_queues(engine: Engine, message_id: str, now_ms: int) -> QueueSearch:
    found: list[FoundJob] = []
    unfinished: list[str] = []
    searched = unreadable = 0
    for name in QUEUES:
        in_queue, count, complete = await _search_queue(engine, name, message_id, now_ms)
        readable = [job for job in in_queue if job is not None]
        found += readable
        unreadable += len(in_queue) - len(readable)
        searched += count
        if not complete:
            unfinished.append(name)
    return QueueSearch(tuple(found), searched, tuple(unfinished), unreadable)


def notification_in(found: FoundJob) -> Notification | None:
    """Return the notification that the job carries inline, if it does."""
    job = found.job.job if isinstance(found.job, Redelivery) else found.job
    return None if isinstance(job, ConfirmationJob) else job.inline


async def _search_queue(
    engine: Engine, name: str, message_id: str, now_ms: int
) -> tuple[list[FoundJob | None], int, bool]:
    """Return the jobs with the message, how many jobs were searched, and whether those were all."""
    q = internal_ref(name)
    found: dict[str, PeekedMessage] = {}  # by id: a job that moves between two pages is seen twice
    groups: dict[str, list[int]] = {}
    cursor = ""
    searched = 0
    while searched < JOBS_MAX:
        page = await engine.peek(q, cursor, PAGE_JOBS, now_ms)
        searched += len(page.messages)
        messages = map(_unwrapped, page.messages) if name == jobs.QUARANTINE else page.messages
        # the id of each job of a message begins with the message's
        found |= {one.id: one for one in messages if one.id.startswith(message_id)}
        if q.fifo:
            for one in page.messages:
                groups.setdefault(one.group, []).append(one.sequence)
        cursor = page.cursor
        if not cursor:
            break
    in_queue = [_found_job(name, one, groups.get(one.group, []), now_ms) for one in found.values()]
    return in_queue, searched, not cursor


def _found_job(name: str, peeked: PeekedMessage, group: Sequence[int], now_ms: int) -> FoundJob | None:
    """Return None for a job that cannot be decoded: it is in quarantine, or will be soon."""
    try:
        job = jobs.decode(peeked.body)
    except msgspec.MsgspecError:
        return None
    hidden = peeked.visible_at_ms > now_ms
    location = JobLocation(
        queue=name,
        job_id=peeked.id,
        under_way=hidden and name not in HIDDEN_WITHOUT_WORKER and peeked.deliveries > _ended_leases(name, job),
        due_ms=max(peeked.visible_at_ms, now_ms),
        failures=job.failures if isinstance(job, Redelivery) else 0,
        behind=sum(sequence < peeked.sequence for sequence in group),
        all_subscriptions=isinstance(job, PublishJob),
        cursor=job.cursor if isinstance(job, PublishJob) else "",
    )
    return FoundJob(location, job, _targets(job))


def _unwrapped(item: PeekedMessage) -> PeekedMessage:
    """Return the job in a quarantine message, as it was in its own queue."""
    quarantined = msgspec.msgpack.decode(item.body, type=QuarantinedJob)
    return replace(item, id=quarantined.id, body=quarantined.body)


def _ended_leases(name: str, job: Job) -> int:
    """Count the receives after which the job stayed in its queue, as a job in a FIFO queue does until its retry."""
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
