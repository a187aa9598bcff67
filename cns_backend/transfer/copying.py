"""Copies all records of one side to the other, and compares what the other then has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from cns_backend.transfer.messages import copy_messages, digest
from cns_backend.transfer.moves import Progress
from cns_backend.transfer.records import QUEUES
from cns_backend.transfer.side import Kind, Side
from cns_backend.transfer.tally import Tally
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_common.process.kill_points import MOVE_QUEUE_COPIED, kill_point
from cqs.internal_queues import internal_key, internal_queue, internal_ref
from cqs.queues.model import Queue

NAMED_MAX = 20


async def copy_kind(source: Side, target: Side, kind: Kind) -> int:
    """Copy all rows of a kind. Returns their number. Raises StartError where the target has others afterwards."""
    copied: dict[str, Tally] = defaultdict(Tally)
    async for rows in source.read(kind):
        await target.write(kind, rows)
        for row in rows:
            copied[kind.group(row)].add(kind.compared(row))
    stored: dict[str, Tally] = defaultdict(Tally)
    async for rows in target.read(kind):
        for row in rows:
            stored[kind.group(row)].add(kind.compared(row))
    _compare(kind, copied, stored, target.where)
    return sum(tally.count for tally in copied.values())


def _compare(kind: Kind, copied: dict[str, Tally], stored: dict[str, Tally], where: str) -> None:
    for group in sorted(copied.keys() | stored.keys()):
        here, there = copied[group], stored[group]
        if here != there:
            of = f" of {group}" if group else ""
            differ = ", and they differ" if here.count == there.count else ""
            text = f"{kind.name}{of}: {here.count} copied, {there.count} in {where}{differ}"
            raise StartError(f"the copy is not complete: {text}; the source is as it was", EXIT_DATA_UNUSABLE)


async def queues_of(side: Side) -> list[Queue]:
    """All queues of tenants."""
    return [row[0] async for rows in side.read(QUEUES) for row in rows]


def check_engines(queues: Sequence[Queue], source: Side, where: str) -> None:
    """Raise StartError that names the queues whose engine the target, `where`, cannot hold."""
    others = [f"{queue.arn} ({queue.engine})" for queue in queues if queue.engine != source.engine]
    if others:
        more = f" and {len(others) - NAMED_MAX} more" if len(others) > NAMED_MAX else ""
        text = f"{where} cannot hold the queues {', '.join(others[:NAMED_MAX])}{more}: drain and delete them first"
        raise StartError(text, EXIT_DATA_UNUSABLE)


async def copy_queues(source: Side, target: Side, progress: Progress, show: Callable[[str], None]) -> tuple[int, int]:
    """Copy the messages of all queues, those of internal ones too. Returns the numbers of queues and of messages."""
    queues = await queues_of(source) + [_job_queue(name, source.engine) for name in await source.job_queues()]
    messages = 0
    for number, queue in enumerate(queues, 1):
        if progress.has(queue.id):
            continue
        show(f"messages of queue {number} of {len(queues)}")
        copied = await copy_messages(source, target, queue)
        stored = await digest(target, queue, copied.cut_ms)
        if copied != stored:
            text = f"the copy is not complete: {queue.arn}: {copied.count} messages copied, {stored.count} stored"
            raise StartError(f"{text} in {target.where}; the source is as it was", EXIT_DATA_UNUSABLE)
        messages += copied.count
        progress.add(queue.id)
        kill_point(MOVE_QUEUE_COPIED)
    return len(queues), messages


def _job_queue(name: str, engine: str) -> Queue:
    queue = internal_queue(internal_key(name), engine)
    if queue is None:
        text = f"no queue can be named {internal_ref(name).id}, which has messages"
        raise StartError(f"{text}; the source is as it was", EXIT_DATA_UNUSABLE)
    return queue
