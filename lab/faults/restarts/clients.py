"""The clients of a round of restarts: boto3 in eight threads, each of which makes every kind of call."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from random import Random

from lab.faults.accounting.ledger import Ledger
from lab.faults.restarts.sdk import Calls, Sdk
from lab.faults.service.clients import ORDERED_SIZES, LoadClients, Step
from lab.faults.service.consumers import Consumer
from lab.faults.service.resources import RoundResources
from lab.faults.service.senders import FifoSender, Sender

CLIENTS = 8
BATCH_MAX = 3
POLL_S_MAX = 3
STEP_PAUSE_S = 0.02
EXTENDED_SHARE = 0.3
"""The share of receives whose messages get their visibility timeout again."""
SHARES = {"send": 6, "publish": 4, "fifo": 3, "ordered": 3, "manage": 4, "receive": 12}
"""The weights of a client's steps."""
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
        self._consumers = [asyncio.create_task(self._for_ever(self._step_of(client))) for client in clients]

    def _step_of(self, client: _Client) -> Step:
        return lambda: client.step(sending=self._sending)

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
        self._random = random
        self._sdk = sdk
        self._name = name
        self._numbers = count()
        self._queues = (resources.standard, resources.fifo, resources.news_queue, *resources.ordered_queues)
        self._consumer = Consumer(sdk, resources, ledger)
        self._senders: dict[str, Step] = {
            "send": partial(self._send_new, Sender(sdk, ledger, resources.standard)),
            "publish": partial(self._send_new, Sender(sdk, ledger, resources.news)),
            "fifo": FifoSender(sdk, ledger, random, resources.fifo, f"{name}f").step,
            "ordered": FifoSender(sdk, ledger, random, resources.ordered, f"{name}o", ORDERED_SIZES).step,
            "manage": self._manage,
        }

    async def step(self, *, sending: bool) -> None:
        """One of this client's kinds of calls, by their shares."""
        (kind,) = self._random.choices(list(SHARES), list(SHARES.values()))
        if sending and kind in self._senders:
            await self._senders[kind]()
            await asyncio.sleep(STEP_PAUSE_S)
        else:
            wait_s = self._random.randint(1, POLL_S_MAX) if sending else 0
            extends = self._random.random() < EXTENDED_SHARE
            await self._consumer.receive(self._random.choice(self._queues), 10, wait_s, extends=extends)

    async def _send_new(self, sender: Sender) -> None:
        await sender.send_new(
            *[f"{self._name}-{next(self._numbers)}" for _ in range(self._random.randint(1, BATCH_MAX))]
        )

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
