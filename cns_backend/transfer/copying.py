"""Copies all records of one side to the other, and compares what the other then has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from cns_backend.transfer.messages import copy_messages, digest
from cns_backend.transfer.moves import Progress
from cns_backend.transfer.records import QUEUES
from cns_backend.transfer.side import Kind, Row, Side
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError
from cns_common.process.kill_points import MOVE_QUEUE_COPIED, kill_point
from cqs.internal_queues import internal_key, internal_queue, internal_ref
from cqs.queues.model import Queue

NAMED_MAX = 20
DIGEST_BITS = 128

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Tally(NamedTuple):
    """Rows of a kind by group: how many there are, and the sum of their hashes, whatever their order."""

    counts: Counter[str]
    digests: Counter[str]

    def add(self, kind: Kind, row: Row) -> None:
        group = kind.group(row)
        digest = blake2b(_encode(kind.compared(row)), digest_size=DIGEST_BITS // 8).digest()
        self.counts[group] += 1
        self.digests[group] = (self.digests[group] + int.from_bytes(digest)) % 2**DIGEST_BITS


async def copy_kind(source: Side, target: Side, kind: Kind) -> int:
    """Copy all rows of a kind. Returns their number. Raises StartError where the target has others afterwards."""
    copied = Tally(Counter(), Counter())
    async for rows in source.read(kind):
        await target.write(kind, rows)
        for row in rows:
            copied.add(kind, row)
    stored = Tally(Counter(), Counter())
    async for rows in target.read(kind):
        for row in rows:
            stored.add(kind, row)
    _compare(kind, copied, stored, target.where)
    return copied.counts.total()


def _compare(kind: Kind, copied: Tally, stored: Tally, where: str) -> None:
    for group in sorted(copied.counts.keys() | stored.counts.keys()):
        here, there = copied.counts[group], stored.counts[group]
        if here != there or copied.digests[group] != stored.digests[group]:
            of = f" of {group}" if group else ""
            text = f"{kind.name}{of}: {here} copied, {there} in {where}" + (
                ", and they differ" if here == there else ""
            )
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
