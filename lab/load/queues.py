"""The queue workloads: the calls that each connection repeats, and the unit that is counted."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice

import msgspec

from lab.harness.server import Server
from lab.harness.signing import Signer
from lab.load.wire import Budget, Lane, LoadError, Script, connect, run
from lab.measure.figures import Figures, Meter

BODY_BYTES = 1024
BATCH = 10
VARIANTS = 1024
"""Number of different sends that are signed before the clock starts and sent in turn: a signature is valid for 15
minutes."""
HIDE_S = 600
RECEIVE_VARIANTS = 240
"""Receives have no body that differs, so each is signed for another second."""
SECONDS_MAX = 60.0
ALPHABET = b"abcdefghijklmnopqrstuvwxyz0123456789-_"

_HANDLE = re.compile(rb'"ReceiptHandle": *"([^"]+)"')


class Client:
    """Connections to one server, and one of its queues."""

    def __init__(self, server: Server, lanes: list[Lane], seed: int) -> None:
        self.server = server
        self.lanes = lanes
        self.random = random.Random(seed)
        self.signer = Signer(server.credentials, "sqs", f"127.0.0.1:{server.port}")
        self.url = ""

    async def ask(self, operation: str, **members: object) -> dict[str, object]:
        """One call outside the workload."""
        answer = await self.lanes[0].ask(self.signer.call(operation, msgspec.json.encode(members)))
        parsed: dict[str, object] = msgspec.json.decode(answer or b"{}")
        return parsed

    async def connect_anew(self) -> None:
        """Replace connections that the server may have closed because they were idle."""
        self.close()
        self.lanes = await connect(self.server.port, len(self.lanes))

    async def use_queue(self, name: str, **attributes: str) -> None:
        members: dict[str, object] = {"QueueName": name}
        if attributes:
            members["Attributes"] = attributes
        self.url = str((await self.ask("CreateQueue", **members))["QueueUrl"])

    def call(self, operation: str, at_s: int | None = None, /, **members: object) -> bytes:
        return self.signer.call(operation, msgspec.json.encode({"QueueUrl": self.url, **members}), at_s)

    def body(self) -> str:
        return bytes(self.random.choices(ALPHABET, k=BODY_BYTES)).decode()

    def close(self) -> None:
        for lane in self.lanes:
            lane.close()


async def open_client(server: Server, connections: int, seed: int, queue: str) -> Client:
    client = Client(server, await connect(server.port, connections), seed)
    await client.use_queue(queue)
    return client


# -- workloads --------------------------------------------------------------------------------------------------------


async def send(client: Client, messages: int) -> Figures:
    """Single sends of 1 KiB."""
    sends = [client.call("SendMessage", MessageBody=client.body()) for _ in range(VARIANTS)]
    budget = Budget(messages, SECONDS_MAX)
    times: list[int] = []

    def script(requests: Iterator[bytes]) -> Script:
        while budget.take():
            yield times, next(requests)

    return await _measure("send", client, messages, times, lambda lane: script(turns(sends, lane)), budget)


async def receive_delete(client: Client, messages: int) -> Figures:
    """Receive one message and delete it; the unit is the pair, and its time that of both requests."""
    receives = receive_requests(client, 1)
    budget = Budget(messages, SECONDS_MAX)
    pairs: list[int] = []

    def script(requests: Iterator[bytes]) -> Script:
        two: list[int] = []
        while budget.take():
            handles = handles_in((yield two, next(requests)))
            if not handles:
                raise LoadError("an empty receive although messages are left")
            yield two, delete_request(client, handles[0])
            pairs.append(sum(two))
            two.clear()

    return await _measure(
        "receive + delete", client, messages, pairs, lambda lane: script(turns(receives, lane)), budget
    )


async def send_batches(client: Client, messages: int, seconds_max: float = SECONDS_MAX) -> Figures:
    """Batches of ten; the unit is a message, the time that of a request."""
    sends = [
        client.call("SendMessageBatch", Entries=[{"Id": str(n), "MessageBody": client.body()} for n in range(BATCH)])
        for _ in range(VARIANTS // BATCH)
    ]
    budget = Budget(messages, seconds_max)
    times: list[int] = []

    def script(requests: Iterator[bytes]) -> Script:
        while budget.take(BATCH):
            if b'"Failed"' in (yield times, next(requests)):
                raise LoadError("an entry of a batch was refused")

    return await _measure("batch send", client, messages, times, lambda lane: script(turns(sends, lane)), budget)


async def drain(client: Client, messages: int) -> Figures:
    """Receive up to ten and delete them in one batch until none is left; the unit is a message."""
    receives = receive_requests(client, BATCH)
    budget = Budget(messages, SECONDS_MAX)
    times: list[int] = []

    def script(requests: Iterator[bytes]) -> Script:
        while budget.left > 0 and budget.take(0):
            handles = handles_in((yield times, next(requests)))
            budget.left -= len(handles)
            if not handles:
                return  # other connections have the rest in flight
            if b'"Failed"' in (yield times, delete_batch_request(client, handles)):
                raise LoadError("an entry of a batch was refused")

    return await _measure(
        "batch receive + delete", client, messages, times, lambda lane: script(turns(receives, lane)), budget
    )


async def _measure(
    workload: str,
    client: Client,
    messages: int,
    times: list[int],
    script: Callable[[int], Script],
    budget: Budget,
) -> Figures:
    scripts = [script(lane) for lane in range(len(client.lanes))]
    meter = Meter(client.server)
    await run(client.lanes, scripts)
    figures = meter.read(workload, len(scripts), messages - budget.left, times)
    if budget.left > 0 and not budget.late:
        raise LoadError(f"{workload}: {budget.left} of {messages} messages are missing")
    return figures


# -- requests ---------------------------------------------------------------------------------------------------------


def turns(requests: list[bytes], lane: int) -> Iterator[bytes]:
    """All requests in a cycle, which each connection starts at another place."""
    return islice(cycle(requests), lane * 17 % len(requests), None)


def receive_requests(client: Client, n: int, **members: object) -> list[bytes]:
    """The same receive, signed for each of the last `RECEIVE_VARIANTS` seconds."""
    now_s = int(time.time())
    return [
        client.call("ReceiveMessage", at_s, MaxNumberOfMessages=n, VisibilityTimeout=HIDE_S, **members)
        for at_s in range(now_s - RECEIVE_VARIANTS, now_s)
    ]


def handles_in(answer: bytes) -> list[bytes]:
    """The receipt handles of a receive's answer."""
    return _HANDLE.findall(answer)


def delete_request(client: Client, handle: bytes) -> bytes:
    return client.signer.call(
        "DeleteMessage", b'{"QueueUrl":"%s","ReceiptHandle":"%s"}' % (client.url.encode(), handle)
    )


def delete_batch_request(client: Client, handles: list[bytes]) -> bytes:
    entries = b",".join([b'{"Id":"%d","ReceiptHandle":"%s"}' % entry for entry in enumerate(handles)])
    return client.signer.call(
        "DeleteMessageBatch", b'{"QueueUrl":"%s","Entries":[%s]}' % (client.url.encode(), entries)
    )
