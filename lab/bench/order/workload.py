"""The senders and receivers of an experiment, and their record of each send, receive and delete of a message."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from itertools import repeat
from math import inf
from random import Random
from time import perf_counter_ns
from zlib import crc32

import msgspec

from lab.load.caller import Caller
from lab.measure.figures import NS_PER_S

CHECKSUM_CHARS, NUMBER_DIGITS = 8, 10
EMPTY_POLLS = 2
"""A receiver ends after so many empty receives if all messages of its queue were deleted, else …"""
EMPTY_S_MAX = 15
"""… after so many seconds of them beyond the visibility timeout."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The paper's parameters: Q, Tsend, Trecv, m, L, δsend, δrecv, and the visibility timeout."""

    queues: int = 20
    senders: int = 3  # a queue
    receivers: int = 3  # a queue
    messages: int = 100  # a sender
    body_bytes: int = 2048
    send_delay_s: float = 0
    receive_delay_s: float = 0
    visibility_s: int = 10
    poll_s: int = 1
    """How long a receive waits for a message."""
    seconds: float = 0
    """Senders and receivers end after this time, however many `messages` there are; 0: senders when all are sent."""
    fifo: bool = False
    name: str = "order"
    """The beginning of the queues' names, before their number. Runs on one service need different ones."""
    attributes: dict[str, str] = {}
    """More queue attributes: the engine and its options."""

    @property
    def total(self) -> int:
        return self.queues * self.senders * self.messages


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Probabilities and times of faults. Times are means of exponential distributions, but `mttr_s` is a fixed time."""

    drop_probability: float = 0  # for each call: that it, or equally likely its answer, is lost
    quit_probability: float = 0  # for each receive: that the receiver ends before it deletes, and another one starts
    mttf_s: float = 0  # until an API process is killed; 0: none is killed
    mttr_s: float = 0  # from the kill of a process to its new start


NO_FAULTS = Faults()


@dataclass(slots=True)
class QueueLog:
    """The clients' record of one queue. A message is a number, in the order of the acknowledged sends."""

    name: str
    acknowledged: list[int] = field(default_factory=list)
    ids: dict[int, set[str]] = field(default_factory=dict)  # message ids received for a number
    received: list[int] = field(default_factory=list)  # with repetitions, in the order of the answers
    deleted: set[int] = field(default_factory=set)


@dataclass(slots=True)
class RunRecord:
    """Times in ns by perf_counter_ns, response times of calls that brought something, and failures."""

    queues: list[QueueLog]
    sends: list[int] = field(default_factory=list)
    receives: list[int] = field(default_factory=list)
    corrupt: int = 0
    polls: int = 0
    empty: int = 0  # of the polls
    dropped: int = 0
    quits: int = 0
    errors: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    send_span_ns: tuple[int, int] = (0, 0)
    receive_span_ns: tuple[int, int] = (0, 0)
    last_delete_ns: int = 0
    backlog: int = 0  # messages that were sent and not deleted when the last was sent


class Experiment:
    """One run of a load on a service. `callers` are those of senders and of receivers."""

    def __init__(self, load: Load, callers: tuple[Caller, Caller], random: Random, faults: Faults = NO_FAULTS) -> None:
        self.load = load
        self.faults = faults
        self._make, self._make_receiver = callers
        self._is_sending = False
        self._began_ns = perf_counter_ns()
        self._random = random
        self._numbers = iter(range(10**NUMBER_DIGITS))
        self._filler = "x" * (load.body_bytes - CHECKSUM_CHARS - NUMBER_DIGITS)
        self.record = RunRecord(
            [QueueLog(f"{load.name}-{n}{'.fifo' if load.fifo else ''}") for n in range(load.queues)]
        )

    async def create_queues(self) -> None:
        fifo = {"FifoQueue": "true"} if self.load.fifo else {}
        timeout = {"VisibilityTimeout": str(self.load.visibility_s)}
        for queue in self.record.queues:
            attributes = {**timeout, **fifo, **self.load.attributes}
            made = await self._make.ask("CreateQueue", QueueName=queue.name, Attributes=attributes)
            self._make.account = self._make_receiver.account = made["QueueUrl"].split("/")[-2]

    def close(self) -> None:
        self._make.close()
        self._make_receiver.close()

    async def run_together(self) -> None:
        """Send and receive at the same time."""
        self._began_ns = perf_counter_ns()
        self._is_sending = True
        await asyncio.gather(self.send_all(), self.receive_all())

    async def send_all(self) -> None:
        began_ns = perf_counter_ns()
        self._is_sending = True
        workers = [self._send(queue, n) for queue in self.record.queues for n in range(self.load.senders)]
        await asyncio.gather(*workers)
        self._is_sending = False
        self.record.send_span_ns = (began_ns, perf_counter_ns())
        self.record.backlog = sum(len(queue.acknowledged) - len(queue.deleted) for queue in self.record.queues)

    async def receive_all(self) -> None:
        began_ns = perf_counter_ns()
        workers = [self._receive(queue, n) for queue in self.record.queues for n in range(self.load.receivers)]
        await asyncio.gather(*workers)
        self.record.receive_span_ns = (began_ns, self.record.last_delete_ns)

    # -- senders ------------------------------------------------------------------------------------------------------

    async def _send(self, queue: QueueLog, place: int) -> None:
        load, record = self.load, self.record
        chance = Random(self._random.random())
        caller = self._make.another(place, chance)
        await asyncio.sleep(load.send_delay_s * chance.random())  # else all send at the same moments
        for _ in repeat(None) if load.seconds else range(load.messages):
            if self._is_late():
                break
            number = next(self._numbers)
            members = {"MessageBody": self._body(number)}
            if load.fifo:
                members |= {"MessageGroupId": "g", "MessageDeduplicationId": str(number)}
            began_ns = perf_counter_ns()
            while await caller.call("SendMessage", queue.name, **members) is None:
                pass  # repeated until it is answered: it may be there twice
            record.sends.append(perf_counter_ns() - began_ns)
            queue.acknowledged.append(number)
            await asyncio.sleep(load.send_delay_s)
        self._end(caller)

    def _body(self, number: int) -> str:
        """A checksum, the message's number, and text."""
        text = f"{number:0{NUMBER_DIGITS}d}{self._filler}"
        return f"{crc32(text.encode()):08x}{text}"

    # -- receivers ----------------------------------------------------------------------------------------------------

    async def _receive(self, queue: QueueLog, place: int) -> None:
        load, faults, chance = self.load, self.faults, Random(self._random.random())
        caller = self._make_receiver.another(place, chance)
        await asyncio.sleep(load.receive_delay_s * chance.random())
        empty = 0
        while empty < self._empty_polls(queue) and not self._is_late():
            began_ns = perf_counter_ns()
            members = {"MaxNumberOfMessages": 1, "WaitTimeSeconds": load.poll_s}
            answer = await caller.call("ReceiveMessage", queue.name, **members)
            messages = answer.get("Messages", []) if answer is not None else []
            empty = empty + 1 if answer is not None and not messages else 0
            self.record.polls += 1
            self.record.empty += not messages
            for message in messages:
                self.record.receives.append(perf_counter_ns() - began_ns)
                number = self._note_receive(queue, message)
                await asyncio.sleep(load.receive_delay_s)
                if chance.random() < faults.quit_probability:
                    self.record.quits += 1  # and another one starts in its place
                    break
                await self._deleted(caller, queue, number, message["ReceiptHandle"])
        self._end(caller)

    def _note_receive(self, queue: QueueLog, message: dict[str, str]) -> int:
        checksum, text = message["Body"][:CHECKSUM_CHARS], message["Body"][CHECKSUM_CHARS:]
        number = int(text[:NUMBER_DIGITS])
        self.record.corrupt += checksum != f"{crc32(text.encode()):08x}"
        queue.received.append(number)
        queue.ids.setdefault(number, set()).add(message["MessageId"])
        return number

    async def _deleted(self, caller: Caller, queue: QueueLog, number: int, handle: str) -> None:
        while await caller.call("DeleteMessage", queue.name, ReceiptHandle=handle) is None:
            if caller.refused:
                return  # the handle is that of an earlier delivery
        queue.deleted.add(number)
        self.record.last_delete_ns = perf_counter_ns()

    def _empty_polls(self, queue: QueueLog) -> float:
        if self.load.seconds:
            return inf
        is_done = not self._is_sending and len(queue.deleted) >= len(queue.acknowledged)
        return EMPTY_POLLS if is_done else (EMPTY_S_MAX + self.load.visibility_s) / self.load.poll_s

    def _is_late(self) -> bool:
        return bool(self.load.seconds) and perf_counter_ns() > self._began_ns + self.load.seconds * NS_PER_S

    def _end(self, caller: Caller) -> None:
        self.record.dropped += caller.dropped
        self.record.errors += caller.errors
        self.record.failures += caller.failures
        caller.close()
