"""Random small logs of audited queues: late and repeated receives, losses, purges, gaps, several processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from cns_common.durations import HOUR_MS
from cns_common.events.audit_events import (
    AuditEvent,
    EndCause,
    MessageDeleted,
    MessageEnded,
    MessageReceived,
    MessageSent,
    QueueAudited,
)
from cns_common.events.schema import QueueCounted, SegmentOpened, SegmentSealed

START_MS = 20_000 * 24 * HOUR_MS
MESSAGES_MAX = 12
END_CAUSES: tuple[EndCause, ...] = ("expired", "dead_lettered", "moved")
LogEvent = AuditEvent | QueueCounted | SegmentOpened | SegmentSealed


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a segment; `sequence` is 0 for the segment's own lines."""

    boot: str
    sequence: int
    event: LogEvent


@dataclass(slots=True)
class _Writer:
    """The processes of a log, and the time."""

    random: Random
    at_ms: int
    lines: list[Line] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def pass_time(self, ms_max: int) -> int:
        self.at_ms += self.random.randint(0, ms_max)
        return self.at_ms

    def write(self, boot: str, event: LogEvent) -> None:
        self.numbers[boot] = number = self.numbers.get(boot, 0) + 1
        self.lines.append(Line(boot, number, event))


def queue_of(number: int, *, fifo: bool) -> str:
    return f"arn:aws:sqs:us-east-1:111111111111:q{number:04d}{'.fifo' if fifo else ''}"


def counted(queue: str, at_ms: int, visible: int = 0) -> QueueCounted:
    """The depth of a queue without traffic."""
    return QueueCounted(
        at_ms=at_ms, since_ms=at_ms, queue=queue, sent=0, received=0, deleted=0, visible=visible, in_flight=0, delayed=0
    )


def random_log(number: int) -> list[Line]:
    """The log of one queue, in an hour of its own. The same number gives the same log."""
    random = Random(number)
    writer = _Writer(random, START_MS + number * HOUR_MS)
    queue = queue_of(number, fifo=random.random() < 0.4)
    boots = [f"{number:04d}-{n}" for n in range(random.randint(1, 3))]
    if random.random() < 0.15:
        writer.write(boots[0], _audited(random, queue, writer.at_ms))
    for _, message, step in sorted(_steps(random)):
        event = _event(random, queue, message, step, writer.pass_time(3_000))
        writer.write(random.choice(boots), event)
        if random.random() < 0.02:
            cause: EndCause = random.choice(("purged", "queue_deleted"))
            writer.write(boots[0], MessageEnded(at_ms=writer.at_ms, queue=queue, cause=cause))
    if random.random() < 0.7:
        for ms in (90_000, 30_000):
            writer.write(f"{number:04d}-counter", _counted(random, queue, writer.pass_time(ms)))
    return _with_gaps(writer)


def _steps(random: Random) -> list[tuple[float, int, str]]:
    """(when, message, step): sends in order; what follows a send is late by chance."""
    late = random.choice((0.3, 2.0, 8.0))
    steps = []
    for message in range(random.randint(0, MESSAGES_MAX)):
        at = float(message)
        steps.append((at, message, "send"))
        for step, chance in (("resend", 0.05), ("receive 1", 0.85), ("receive 2", 0.2), ("receive 2", 0.05)):
            if random.random() < chance:
                steps.append((at := at + 0.1 + random.random() * late, message, step))
        for step, chance in (("delete", 0.7), ("delete", 0.05), ("end", 0.08)):
            if random.random() < chance:
                steps.append((at := at + 0.1 + random.random() * late, message, step))
    return steps


def _event(random: Random, queue: str, message: int, step: str, at_ms: int) -> AuditEvent:
    fifo = queue.endswith(".fifo")
    message_id, group = f"m{message}", f"g{message % 2}" if fifo else ""
    checksum = f"{message:08x}"
    match step.split():
        case ["receive", count]:
            damaged = "ffffffff" if random.random() < 0.5 else "00000000"
            return MessageReceived(
                at_ms=at_ms,
                queue=queue,
                message_id=message_id,
                group=group,
                receive_count=int(count),
                checksum=damaged if random.random() < 0.03 else checksum,
            )
        case ["delete"]:
            return MessageDeleted(at_ms=at_ms, queue=queue, message_id=message_id, group=group)
        case ["end"]:
            cause = random.choice(END_CAUSES)
            return MessageEnded(at_ms=at_ms, queue=queue, message_id=message_id, group=group, cause=cause)
    again = step == "resend"
    return MessageSent(
        at_ms=at_ms,
        queue=queue,
        message_id=message_id,
        group=group,
        size_bytes=1,
        checksum="" if again else checksum,
        sequence_number=str(10**19 - 5 + message) if fifo else "",
        duplicate=again,
    )


def _audited(random: Random, queue: str, at_ms: int) -> QueueAudited:
    if random.random() < 0.5:
        return QueueAudited(at_ms=at_ms, queue=queue, audit="off")
    return QueueAudited(at_ms=at_ms, queue=queue, audit="on", complete_from_ms=at_ms + random.randint(0, 20_000))


def _counted(random: Random, queue: str, at_ms: int) -> QueueCounted:
    return counted(queue, at_ms, int(random.random() < 0.2))


def _with_gaps(writer: _Writer) -> list[Line]:
    """Remove some lines, and add the lines of segments."""
    random = writer.random
    share = 0.1 if random.random() < 0.3 else 0.0
    kept = [line for line in writer.lines if random.random() >= share]
    for boot, last in writer.numbers.items():
        first_ms = next(line.event.at_ms for line in writer.lines if line.boot == boot)
        if random.random() < 0.95:
            kept.append(Line(boot, 0, SegmentOpened(at_ms=first_ms, process=f"p-{boot}", first_sequence=1)))
        if random.random() < 0.9:
            stopped = random.random() < 0.7
            sealed = SegmentSealed(
                at_ms=writer.at_ms + 1,
                process=f"p-{boot}",
                first_sequence=1,
                last_sequence=last,
                events=last,
                torn_bytes=0,
                recovered=not stopped and random.random() < 0.5,
                stopped=stopped,
            )
            kept.append(Line(boot, 0, sealed))
    return kept
