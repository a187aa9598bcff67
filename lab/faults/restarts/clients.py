"""The clients of a round of restarts: boto3 in eight threads, each of which makes every kind of call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from random import Random

from cns_common.ids import hex_id
from lab.faults.accounting.ledger import Ledger, Receipt, SentMessage
from lab.faults.restarts.sdk import Answer, Calls, Sdk
from lab.faults.service.clients import ORDERED_SIZES, LoadClients, Step, note_receipts
from lab.faults.service.resources import VISIBILITY_S, RoundResources
from lab.faults.service.senders import RETRY_PAUSE_S, Acknowledgement, FifoSender, Send, deduplication

CLIENTS = 8
BATCH_MAX = 3
POLL_S_MAX = 3
STEP_PAUSE_S = 0.02
EXTENDED_SHARE = 0.3
"""The share of receives whose messages get their visibility timeout again."""
SHARES = {"send": 6, "publish": 4, "fifo": 3, "ordered": 3, "manage": 4, "receive": 12}
"""The weights of a client's steps."""
PART = {"part": {"DataType": "String", "StringValue": "yes"}}
SIDE_TOPIC = "side"
"""The topic of subscriptions that come and go; nobody publishes to it."""
GONE = "AWS.SimpleQueueService.NonExistentQueue"


class SdkClients(LoadClients):
    """As `LoadClients`; clients that are told to stop sending go on to receive."""

    def __init__(self, resources: RoundResources, ledger: Ledger, random: Random) -> None:
        super().__init__(resources, ledger, random)
        self._pool = ThreadPoolExecutor(CLIENTS)
        self._sdks: list[Sdk] = []
        self.calls = Calls()

    def start(self) -> None:
        port, credentials = self._resources.port, self._resources.credentials
        self._sdks = [Sdk(port, credentials, self.calls, self._pool) for _ in range(CLIENTS)]
        clients = [
            _Client(self._resources, self._ledger, self._random, sdk, f"c{n}") for n, sdk in enumerate(self._sdks)
        ]
        steps = [client.steps(lambda: self._sending) for client in clients]
        self._consumers = [asyncio.create_task(self._for_ever(step)) for step in steps]

    async def spare_last_attempts(self) -> None:
        """Wait until no call has a single attempt left."""
        while any(sdk.in_last_attempt for sdk in self._sdks):
            await asyncio.sleep(STEP_PAUSE_S)

    async def stop_sending(self) -> None:
        self._sending = False
        await self.pause()
        self.resume()

    async def close(self) -> None:
        await super().close()
        await asyncio.to_thread(self._pool.shutdown)


class _Client:
    def __init__(self, resources: RoundResources, ledger: Ledger, random: Random, sdk: Sdk, name: str) -> None:
        self._resources = resources
        self._ledger = ledger
        self._random = random
        self._sdk = sdk
        self._name = name
        self._numbers = count()
        self._queues = (resources.standard, resources.fifo, resources.news_queue, *resources.ordered_queues)

    def steps(self, sending: Callable[[], bool]) -> Step:
        """The step of this client: one of its kinds of calls, by their shares."""
        resources, ledger, random = self._resources, self._ledger, self._random
        fifo = FifoSender(self._send_to(resources.fifo), ledger, random, resources.fifo, f"{self._name}f")
        send = self._send_to(resources.ordered)
        ordered = FifoSender(send, ledger, random, resources.ordered, f"{self._name}o", ORDERED_SIZES)
        table: dict[str, Step] = {
            "send": lambda: self._send_new(resources.standard),
            "publish": lambda: self._send_new(resources.news),
            "fifo": fifo.step,
            "ordered": ordered.step,
            "manage": self._manage,
        }

        async def step() -> None:
            (kind,) = random.choices(list(SHARES), list(SHARES.values()))
            if sending() and kind in table:
                await table[kind]()
                await asyncio.sleep(STEP_PAUSE_S)
            else:
                await self._receive(random.choice(self._queues), random.randint(1, POLL_S_MAX) if sending() else 0)

        return step

    # -- sends and publishes ------------------------------------------------------------------------------------------

    async def _send_new(self, target: str) -> None:
        texts = [f"{self._name}-{next(self._numbers)}" for _ in range(self._random.randint(1, BATCH_MAX))]
        messages = [self._ledger.add_message(target, text) for text in texts]
        began_ns = time.time_ns()
        for message, sent in zip(messages, await self._send_to(target)(messages), strict=True):
            message.began_ns, message.acknowledged_ns = began_ns, time.time_ns()
            message.ids.append(sent.id)

    def _send_to(self, target: str) -> Send:
        """A single message goes by the call for one."""
        is_topic = target.startswith("arn:")
        service, name, body = ("sns", "publish", "Message") if is_topic else ("sqs", "send_message", "MessageBody")
        where, entries_name = ("TopicArn", "PublishBatchRequestEntries") if is_topic else ("QueueUrl", "Entries")

        async def send(messages: Sequence[SentMessage]) -> list[Acknowledgement]:
            entries: list[dict[str, object]] = [{body: message.body, **deduplication(message)} for message in messages]
            for message, entry in zip(messages, entries, strict=True):
                if is_topic and message.group and message.is_in_part:
                    entry["MessageAttributes"] = PART
            if len(messages) == 1:
                answer = await self._call(messages, service, name, {where: target, **entries[0]})
                return [_acknowledgement(answer.members)]
            ids = [{"Id": str(place), **entry} for place, entry in enumerate(entries)]
            answer = await self._call(messages, service, f"{name}_batch", {where: target, entries_name: ids})
            return [_acknowledgement(entry) for entry in answer.members["Successful"]]

        return send

    async def _call(
        self, messages: Sequence[SentMessage], service: str, operation: str, members: Mapping[str, object]
    ) -> Answer:
        """Make a call, and again if it fails, so that the order in FIFO groups is known."""
        while True:
            answer = await self._sdk.call(service, operation, members)
            for message in messages:
                message.unknown_outcomes += answer.unknown_outcomes
            if not answer.failed:
                return answer
            await asyncio.sleep(RETRY_PAUSE_S)

    # -- receives -----------------------------------------------------------------------------------------------------

    async def _receive(self, queue: str, wait_s: int) -> None:
        members: dict[str, object] = {
            "QueueUrl": queue,
            "MaxNumberOfMessages": 10,
            "VisibilityTimeout": VISIBILITY_S,
            "WaitTimeSeconds": wait_s,
            "MessageSystemAttributeNames": ["All"],
        }
        if queue in self._resources.fifo_queues:
            members["ReceiveRequestAttemptId"] = hex_id()
        asked_ns = time.time_ns()
        answer = await self._sdk.call("sqs", "receive_message", members)
        if answer.failed:
            return
        noted = note_receipts(self._resources, self._ledger, queue, asked_ns, answer.members.get("Messages", []))
        extends = self._random.random() < EXTENDED_SHARE
        for receipt, handle in noted:
            message: dict[str, object] = {"QueueUrl": queue, "ReceiptHandle": handle}
            if extends:
                visibility = message | {"VisibilityTimeout": VISIBILITY_S}
                await self._sdk.call("sqs", "change_message_visibility", visibility)
            await self._delete(receipt, message)

    async def _delete(self, receipt: Receipt, message: Mapping[str, object]) -> None:
        receipt.delete_asked_ns = time.time_ns()
        while True:
            answer = await self._sdk.call("sqs", "delete_message", message)
            receipt.unknown_deletes += answer.unknown_outcomes
            if not answer.failed:
                receipt.deleted_ns = time.time_ns()
                return
            await asyncio.sleep(RETRY_PAUSE_S)

    # -- the other calls ----------------------------------------------------------------------------------------------

    async def _manage(self) -> None:
        resources, call = self._resources, self._sdk.call
        await call("sqs", "get_queue_attributes", {"QueueUrl": resources.standard, "AttributeNames": ["All"]})
        await call("sqs", "list_queues", {})
        await call("sns", "list_subscriptions_by_topic", {"TopicArn": resources.news})
        await call("sts", "get_caller_identity", {})
        queue = await call("sqs", "create_queue", {"QueueName": f"{self._name}-{next(self._numbers)}"})
        if not queue.failed:
            await call("sqs", "delete_queue", {"QueueUrl": queue.members["QueueUrl"]}, GONE)
        topic = await call("sns", "create_topic", {"Name": SIDE_TOPIC})
        arn = resources.news.rpartition(":")[0].replace(":sns:", ":sqs:") + ":standard"
        target = {"TopicArn": topic.members.get("TopicArn", ""), "Protocol": "sqs", "Endpoint": arn}
        subscription = await call("sns", "subscribe", {**target, "ReturnSubscriptionArn": True})
        if not subscription.failed:
            await call("sns", "unsubscribe", {"SubscriptionArn": subscription.members["SubscriptionArn"]})


def _acknowledgement(entry: dict[str, str]) -> Acknowledgement:
    return Acknowledgement(entry["MessageId"], int(entry.get("SequenceNumber", "0")))
