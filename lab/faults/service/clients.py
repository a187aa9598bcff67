"""The clients of a kill round: senders, publishers and consumers that repeat what was not answered, as SDKs do."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any

import msgspec

from cns_common.ids import hex_id
from lab.faults.accounting.ledger import Ledger, Receipt, SentMessage, text_of
from lab.faults.accounting.redrive_queue import is_poison
from lab.faults.service.resources import REDRIVE_VISIBILITY_S, VISIBILITY_S, RoundResources
from lab.faults.service.senders import RETRY_PAUSE_S, FifoSender, send_until_answered, to_queue, to_topic
from lab.faults.service.wire import NotSent, OutcomeUnknown, Refused, Wire

STANDARD_SENDERS = 4
FIFO_SENDERS = 3
REDRIVE_SENDERS = 2
STANDARD_CONSUMERS = 3
FIFO_CONSUMERS = 3
REDRIVE_CONSUMERS = 2
PUBLISHERS = 2
ORDERED_PUBLISHERS = 2
ORDERED_CONSUMERS = 2
SEND_PAUSE_S = 0.004
REDRIVE_PAUSE_S = 0.2
PUBLISH_PAUSE_S = 0.015
WIDE_PAUSE_S = 0.4
FAILING_PAUSE_S = 0.04
ORDERED_PAUSE_S = 0.05
ORDERED_SIZES = (1, 1, 1, 1, 10, 1, 1, 1, 1, 1, 20)
"""Sizes in units of the padding. The copies of large bodies exceed one batch together, so they are stored once."""
POLL_S = 1
DRAIN_PAUSE_S = 0.03

_MESSAGE_ID = re.compile(rb"<MessageId>([^<]+)</MessageId>")

Step = Callable[[], Awaitable[None]]


class LoadClients:
    """All clients run from `start`; `stop_sending` ends senders and publishers, `close` ends the consumers."""

    def __init__(self, resources: RoundResources, ledger: Ledger, random: Random, prefix: str = "") -> None:
        """`prefix` makes texts unique among rounds that share queues."""
        self._prefix = prefix
        self._resources = resources
        self._ledger = ledger
        self._random = random
        self._wires: list[Wire] = []
        self._producers: list[asyncio.Task[None]] = []
        self._consumers: list[asyncio.Task[None]] = []
        self._turns: list[asyncio.Lock] = []
        self._sending = True

    def start(self) -> None:
        resources = self._resources
        producers = [
            *[self._standard_sender(f"s{number}") for number in range(STANDARD_SENDERS)],
            *[self._fifo_sender(resources.fifo, f"g{number}", SEND_PAUSE_S) for number in range(FIFO_SENDERS)],
            *[self._fifo_sender(resources.redrive, f"w{number}", REDRIVE_PAUSE_S) for number in range(REDRIVE_SENDERS)],
            *[self._publisher(resources.news, f"n{number}", PUBLISH_PAUSE_S) for number in range(PUBLISHERS)],
            self._publisher(resources.wide, "w", WIDE_PAUSE_S),
            *[self._ordered_publisher(f"o{number}") for number in range(ORDERED_PUBLISHERS)],
        ]
        consumers = [
            *[self._consumer(resources.standard) for _ in range(STANDARD_CONSUMERS)],
            *[self._consumer(resources.fifo) for _ in range(FIFO_CONSUMERS)],
            *[self._consumer(resources.redrive) for _ in range(REDRIVE_CONSUMERS)],
            *[self._consumer(queue) for queue in (resources.dead_letter_queue, resources.news_queue)],
            *[self._consumer(resources.in_order) for _ in range(ORDERED_CONSUMERS)],
            *[self._consumer(queue) for queue in (resources.in_envelopes, resources.in_part)],
        ]
        if resources.failing_endpoints is not None:
            producers.append(self._publisher(resources.failing_endpoints.topic, "a", FAILING_PAUSE_S))
            consumers.append(self._consumer(resources.failing_endpoints.undelivered))
        self._producers = [asyncio.create_task(self._while_sending(step)) for step in producers]
        self._consumers = [asyncio.create_task(self._for_ever(step)) for step in consumers]

    async def stop_sending(self) -> None:
        """Stop the producers and wait until every message they began is acknowledged."""
        self._sending = False
        await asyncio.gather(*self._producers)

    async def pause(self) -> None:
        """Stop the consumers and wait until none holds a message."""
        for turn in self._turns:
            await turn.acquire()

    def resume(self) -> None:
        for turn in self._turns:
            turn.release()

    async def close(self) -> None:
        for task in [*self._producers, *self._consumers]:
            task.cancel()
        done = await asyncio.gather(*self._producers, *self._consumers, return_exceptions=True)
        for wire in self._wires:
            wire.close()
        for result in done:
            if isinstance(result, Exception):
                raise result

    def failed(self) -> bool:
        """Whether a client ended with an exception."""
        return any(
            task.done() and not task.cancelled() and task.exception() for task in [*self._producers, *self._consumers]
        )

    async def _while_sending(self, step: Step) -> None:
        while self._sending:
            await step()

    async def _for_ever(self, step: Step) -> None:
        turn = asyncio.Lock()
        self._turns.append(turn)
        while True:
            async with turn:
                await step()
            if not self._sending:
                await asyncio.sleep(DRAIN_PAUSE_S)

    def _wire(self) -> Wire:
        wire = self._resources.wire()
        self._wires.append(wire)
        return wire

    # -- producers -----------------------------------------------------------------------------------------------------

    def _standard_sender(self, name: str) -> Step:
        wire, numbers, queue = self._wire(), count(), self._resources.standard

        async def step() -> None:
            message = self._ledger.add_message(queue, f"{self._prefix}{name}-{next(numbers)}")
            await self._send(wire, message, {"QueueUrl": queue})
            await asyncio.sleep(SEND_PAUSE_S)

        return step

    def _fifo_sender(self, queue: str, name: str, pause_s: float) -> Step:
        send = to_queue(self._wire(), queue)
        sender = FifoSender(send, self._ledger, self._random, queue, f"{self._prefix}{name}")
        return _with_pauses(sender.step, pause_s)

    def _ordered_publisher(self, name: str) -> Step:
        topic = self._resources.ordered
        send = to_topic(self._wire(), topic)
        sender = FifoSender(send, self._ledger, self._random, topic, f"{self._prefix}{name}", ORDERED_SIZES)
        return _with_pauses(sender.step, ORDERED_PAUSE_S)

    def _publisher(self, topic: str, name: str, pause_s: float) -> Step:
        wire, numbers = self._wire(), count()

        async def step() -> None:
            message = self._ledger.add_message(topic, f"{self._prefix}{name}-{next(numbers)}")
            members = {"TopicArn": topic, "Message": message.body}
            answer = await self._send_until_answered(message, lambda: wire.sns("Publish", members))
            found = _MESSAGE_ID.search(answer)
            assert found is not None, answer
            message.ids.append(found[1].decode())
            await asyncio.sleep(pause_s)

        return step

    async def _send(self, wire: Wire, message: SentMessage, members: Mapping[str, str]) -> None:
        whole = {**members, "MessageBody": message.body}
        answer = await self._send_until_answered(message, lambda: wire.sqs("SendMessage", whole))
        message.ids.append(msgspec.json.decode(answer, type=dict[str, str])["MessageId"])

    async def _send_until_answered(self, message: SentMessage, call: Callable[[], Awaitable[bytes]]) -> bytes:
        message.began_ns = time.time_ns()
        answer = await send_until_answered([message], call)
        message.acknowledged_ns = time.time_ns()
        return answer

    # -- consumers -----------------------------------------------------------------------------------------------------

    def _consumer(self, queue: str) -> Step:
        wire = self._wire()
        fifo = queue in self._resources.fifo_queues
        redrive = queue == self._resources.redrive
        attempt = hex_id()

        async def step() -> None:
            nonlocal attempt
            members: dict[str, object] = {
                "QueueUrl": queue,
                "MaxNumberOfMessages": self._random.choice((10,) if redrive else (1, 5, 10)),
                "VisibilityTimeout": REDRIVE_VISIBILITY_S if redrive else VISIBILITY_S,
                "WaitTimeSeconds": POLL_S if self._sending else 0,
                "MessageSystemAttributeNames": ["All"],
            }
            if fifo:
                members["ReceiveRequestAttemptId"] = attempt
            asked_ns = time.time_ns()
            try:
                answer = await wire.sqs("ReceiveMessage", members)
            except (NotSent, OutcomeUnknown) as error:
                self._ledger.unknown_receives += fifo and isinstance(error, OutcomeUnknown)
                await asyncio.sleep(RETRY_PAUSE_S)
                return  # a FIFO receive is repeated under its attempt id
            attempt = hex_id()
            messages: list[dict[str, Any]] = msgspec.json.decode(answer).get("Messages", [])
            for receipt, handle in note_receipts(self._resources, self._ledger, queue, asked_ns, messages):
                if not (redrive and is_poison(receipt.text)):
                    await self._delete(wire, queue, receipt, handle)

        return step

    async def _delete(self, wire: Wire, queue: str, receipt: Receipt, handle: str) -> None:
        members = {"QueueUrl": queue, "ReceiptHandle": handle}
        receipt.delete_asked_ns = time.time_ns()
        while True:
            try:
                await wire.sqs("DeleteMessage", members)
            except NotSent:
                await asyncio.sleep(RETRY_PAUSE_S)
            except OutcomeUnknown:
                receipt.unknown_deletes += 1
                await asyncio.sleep(RETRY_PAUSE_S)
            except Refused as error:
                if not receipt.group:
                    raise
                self._note_refusal(receipt, error)
                return
            else:
                receipt.deleted_ns = time.time_ns()
                return

    def _note_refusal(self, receipt: Receipt, error: Refused) -> None:
        """A FIFO queue refuses a delete after the lease's end; a refusal before it is a fault."""
        lease_s = REDRIVE_VISIBILITY_S if receipt.queue == self._resources.redrive else VISIBILITY_S
        if not self._ledger.lease_over(receipt.asked_ns, time.time_ns(), lease_s):
            self._ledger.refusals.append(f"{receipt.text}: {error}")


def note_receipts(
    resources: RoundResources, ledger: Ledger, queue: str, asked_ns: int, messages: Sequence[dict[str, Any]]
) -> list[tuple[Receipt, str]]:
    """Enter the messages of a receive. Returns them with their receipt handles."""
    received_ns = time.time_ns()
    ledger.receive_count += 1
    receipts = []
    for message in messages:
        body: str = message["Body"]
        envelope: dict[str, str] = {}
        if queue in resources.envelope_queues:
            envelope = msgspec.json.decode(body)
            body = envelope["Message"]
        attributes: dict[str, str] = message["Attributes"]
        receipt = Receipt(
            queue=queue,
            id=message["MessageId"],
            text=text_of(body),
            group=attributes.get("MessageGroupId", ""),
            sequence=int(attributes.get("SequenceNumber", "0")),
            receive_number=ledger.receive_count,
            sent_ms=int(attributes["SentTimestamp"]),
            received_ns=received_ns,
            asked_ns=asked_ns,
            notification=envelope.get("MessageId", ""),
            published=int(envelope.get("SequenceNumber", "0")),
        )
        ledger.receipts.append(receipt)
        receipts.append((receipt, message["ReceiptHandle"]))
    return receipts


def _with_pauses(step: Step, pause_s: float) -> Step:
    async def paused() -> None:
        await step()
        await asyncio.sleep(pause_s)

    return paused
