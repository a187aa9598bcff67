"""The senders and receivers of an experiment, and their record of each send, receive and delete of a message."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from time import perf_counter_ns
from zlib import crc32

import msgspec

from lab.bench.order.caller import Caller
from lab.bench.order.faults import NO_FAULTS, Faults
from lab.load.queues import ALPHABET

CHECKSUM_CHARS, NUMBER_DIGITS = 8, 10
POLL_S = 1
EMPTY_POLLS = 2
"""A receiver ends after so many empty receives if all messages of its queue were deleted, else …"""
EMPTY_POLLS_MAX = 15
"""… after so many beyond the visibility timeout."""


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
    fifo: bool = False
    name: str = "order"
    """The beginning of the queues' names, before their number. Runs on one service need different ones."""
    attributes: dict[str, str] = {}
    """More queue attributes: the engine and its options."""

    @property
    def total(self) -> int:
        return self.queues * self.senders * self.messages


@dataclass(slots=True)
class QueueLog:
    """The clients' record of one queue. A message is a number, in the order of the acknowledged sends."""

    name: str
    acknowledged: list[int] = field(default_factory=list)
    repeated_sends: int = 0  # sends whose answer was lost, and which may be there twice
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
    dropped: int = 0
    quits: int = 0
    errors: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    send_span_ns: tuple[int, int] = (0, 0)
    receive_span_ns: tuple[int, int] = (0, 0)
    last_delete_ns: int = 0


class Experiment:
    """One run of a load on a service. `make` is the senders' caller; the receivers' is the same unless given."""

    def __init__(
        self, load: Load, make: Caller, random: Random, faults: Faults = NO_FAULTS, receivers: Caller | None = None
    ) -> None:
        self._load = load
        self._make = make
        self._make_receiver = receivers or make
        self._is_sending = False
        self._random = random
        self._faults = faults
        self._numbers = iter(range(10**NUMBER_DIGITS))
        self.measured = RunRecord(
            [QueueLog(f"{load.name}-{n}{'.fifo' if load.fifo else ''}") for n in range(load.queues)]
        )

    async def create_queues(self) -> None:
        fifo = {"FifoQueue": "true"} if self._load.fifo else {}
        timeout = {"VisibilityTimeout": str(self._load.visibility_s)}
        for queue in self.measured.queues:
            attributes = {**timeout, **fifo, **self._load.attributes}
            made = await self._make.ask("CreateQueue", QueueName=queue.name, Attributes=attributes)
            self._make.account = self._make_receiver.account = made["QueueUrl"].split("/")[-2]

    def close(self) -> None:
        self._make.close()
        self._make_receiver.close()

    async def run_together(self) -> None:
        """Send and receive at the same time."""
        self._is_sending = True
        await asyncio.gather(self.send_all(), self.receive_all())

    async def send_all(self) -> None:
        began_ns = perf_counter_ns()
        self._is_sending = True
        workers = [self._send(queue, n) for queue in self.measured.queues for n in range(self._load.senders)]
        await asyncio.gather(*workers)
        self._is_sending = False
        self.measured.send_span_ns = (began_ns, perf_counter_ns())

    async def receive_all(self) -> None:
        began_ns = perf_counter_ns()
        workers = [self._receive(queue, n) for queue in self.measured.queues for n in range(self._load.receivers)]
        await asyncio.gather(*workers)
        self.measured.receive_span_ns = (began_ns, self.measured.last_delete_ns)

    # -- senders ------------------------------------------------------------------------------------------------------

    async def _send(self, queue: QueueLog, place: int) -> None:
        load, measured = self._load, self.measured
        chance = Random(self._random.random())
        caller = self._make.another(place, chance)
        await asyncio.sleep(load.send_delay_s * chance.random())  # else all send at the same moments
        for _ in range(load.messages):
            number = next(self._numbers)
            members = {"MessageBody": self._body(number)}
            if load.fifo:
                members |= {"MessageGroupId": "g", "MessageDeduplicationId": str(number)}
            took_ns, repeats = await self._sent(caller, queue, members)
            measured.sends.append(took_ns)
            queue.acknowledged.append(number)
            queue.repeated_sends += repeats
            await asyncio.sleep(load.send_delay_s)
        self._end(caller)

    async def _sent(self, caller: Caller, queue: QueueLog, members: dict[str, str]) -> tuple[int, int]:
        """Send until it is answered. Returns the time of all tries, and how many of them may have had an effect."""
        began_ns = perf_counter_ns()
        repeats = 0
        while await caller.call("SendMessage", queue.name, **members) is None:
            repeats += not caller.request_was_dropped
        return perf_counter_ns() - began_ns, repeats

    def _body(self, number: int) -> str:
        """A checksum, the message's number, and random text."""
        filler = self._load.body_bytes - CHECKSUM_CHARS - NUMBER_DIGITS
        text = f"{number:0{NUMBER_DIGITS}d}{bytes(self._random.choices(ALPHABET, k=filler)).decode()}"
        return f"{crc32(text.encode()):08x}{text}"

    # -- receivers ----------------------------------------------------------------------------------------------------

    async def _receive(self, queue: QueueLog, place: int) -> None:
        load, faults, chance = self._load, self._faults, Random(self._random.random())
        caller = self._make_receiver.another(place, chance)
        await asyncio.sleep(load.receive_delay_s * chance.random())
        empty = 0
        while empty < self._empty_polls(queue):
            began_ns = perf_counter_ns()
            answer = await caller.call("ReceiveMessage", queue.name, MaxNumberOfMessages=1, WaitTimeSeconds=POLL_S)
            messages = answer.get("Messages", []) if answer is not None else []
            empty = empty + 1 if answer is not None and not messages else 0
            for message in messages:
                self.measured.receives.append(perf_counter_ns() - began_ns)
                number = self._note_receive(queue, message)
                await asyncio.sleep(load.receive_delay_s)
                if chance.random() < faults.quit_probability:
                    self.measured.quits += 1  # and another one starts in its place
                    break
                await self._deleted(caller, queue, number, message["ReceiptHandle"])
        self._end(caller)

    def _note_receive(self, queue: QueueLog, message: dict[str, str]) -> int:
        checksum, text = message["Body"][:CHECKSUM_CHARS], message["Body"][CHECKSUM_CHARS:]
        number = int(text[:NUMBER_DIGITS])
        self.measured.corrupt += checksum != f"{crc32(text.encode()):08x}"
        queue.received.append(number)
        queue.ids.setdefault(number, set()).add(message["MessageId"])
        return number

    async def _deleted(self, caller: Caller, queue: QueueLog, number: int, handle: str) -> None:
        while await caller.call("DeleteMessage", queue.name, ReceiptHandle=handle) is None:
            if caller.refused:
                return  # the handle is that of an earlier delivery
        queue.deleted.add(number)
        self.measured.last_delete_ns = perf_counter_ns()

    def _empty_polls(self, queue: QueueLog) -> int:
        is_done = not self._is_sending and len(queue.deleted) >= len(queue.acknowledged)
        return EMPTY_POLLS if is_done else EMPTY_POLLS_MAX + self._load.visibility_s // POLL_S

    def _end(self, caller: Caller) -> None:
        self.measured.dropped += caller.dropped
        self.measured.errors += caller.errors
        self.measured.failures += caller.failures
        caller.close()
