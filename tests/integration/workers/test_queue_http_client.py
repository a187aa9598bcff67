"""The failures of calls to CQS and their meaning. Each is made by a server that fails in this way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from cns.queue_port.contract import NewJob, QueueMessage
from cns.queue_port.http import HttpQueuePort
from cns.queue_port.http_client import QueueClient, Unreachable
from cns.queue_port.sqs_requests import SqsService
from cns_common.clock import Clock
from cns_common.errors import CnsError, OutcomeUnknown, StoreUnavailable
from lab.harness.ports import free_port

PUT = NewJob("publish-jobs", "id", b"job", "group")
RECEIVED = {
    "MessageId": "m",
    "ReceiptHandle": "h",
    "Body": "am9i",
    "Attributes": {"ApproximateReceiveCount": "2", "SentTimestamp": "1000"},
}
SOON_S, LATE_S = 0.3, 60.0


class Server:
    """Answers each connection's one request with the next of `answers`, or by closing it."""

    def __init__(self, answers: list[bytes]) -> None:
        self.answers = answers
        self.requests: list[bytes] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        self.requests.append(head + await reader.readexactly(length))
        writer.write(self.answers.pop(0))
        await writer.drain()
        writer.close()
        await writer.wait_closed()


def answer(status: int, body: bytes = b"{}") -> bytes:
    head = f"HTTP/1.1 {status} x\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body


LOST = b""
HALF = answer(200, b'{"Sends":["SENT"]}')[:-5]


@asynccontextmanager
async def talking(*answers: bytes) -> AsyncIterator[tuple[Server, HttpQueuePort]]:
    server = Server(list(answers))
    port = free_port()
    listener = await asyncio.start_server(server.handle, "127.0.0.1", port)
    client = client_of(port, LATE_S)
    try:
        async with listener:
            yield server, HttpQueuePort(client)
    finally:
        await client.close()


def service_at(port: int) -> SqsService:
    return SqsService(f"http://127.0.0.1:{port}", "AKIAAGREEDONBYBOTH00", "secret")


def client_of(port: int, reconnect_timeout_s: float = SOON_S) -> QueueClient:
    return QueueClient(service_at(port), "us-east-1", Clock(), reconnect_timeout_s=reconnect_timeout_s)


@pytest.mark.parametrize(
    ("answered", "kind"),
    [
        (LOST, OutcomeUnknown),
        (HALF, OutcomeUnknown),
        (answer(500), OutcomeUnknown),
        (answer(502), OutcomeUnknown),
        (answer(200, b"<html>"), OutcomeUnknown),
        (answer(200, b'{"Deletes":[1]}'), OutcomeUnknown),
        (answer(200, b'{"Deletes":["DONE"]}'), OutcomeUnknown),
        (answer(302), OutcomeUnknown),
        (answer(503), StoreUnavailable),
        (answer(400, b'{"__type":"x#UnknownOperationException"}'), StoreUnavailable),
        (answer(403), StoreUnavailable),
        (answer(413), StoreUnavailable),
    ],
)
async def test_a_settlement_is_sent_once(answered: bytes, kind: type[CnsError]) -> None:
    async with talking(answered) as (server, port):
        with pytest.raises(kind) as failed:
            await port.enqueue([PUT])
    assert type(failed.value) is kind
    assert len(server.requests) == 1


async def test_a_delivery_is_sent_once() -> None:
    async with talking(LOST) as (server, port):
        with pytest.raises(OutcomeUnknown):
            await port.deliver("arn:aws:sqs:r:1:q", [QueueMessage("m")], "arn:aws:sns:r:1:t")
    assert len(server.requests) == 1


@pytest.mark.parametrize("answered", [LOST, HALF, answer(500)])
async def test_a_receive_is_repeated(answered: bytes) -> None:
    async with talking(answered, answer(200, json.dumps({"Messages": [RECEIVED]}).encode())) as (server, port):
        (held,) = await port.receive("publish-jobs", 1, 30_000, 0)
    assert (held.id, held.handle, held.body, held.deliveries) == ("m", "h", b"job", 2)
    assert len(server.requests) == 2


async def test_a_refused_receive_is_not_repeated() -> None:
    async with talking(answer(403)) as (server, port):
        with pytest.raises(StoreUnavailable):
            await port.receive("publish-jobs", 1, 30_000, 0)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda port: port.enqueue([PUT]),
        lambda port: port.settle("publish-jobs", ["handle"]),
        lambda port: port.receive("publish-jobs", 1, 30_000, 20),
        lambda port: port.depth("publish-jobs"),
    ],
)
async def test_nobody_there(call: Callable[[HttpQueuePort], asyncio.Future[object]]) -> None:
    client = client_of(free_port())
    with pytest.raises(Unreachable):
        await call(HttpQueuePort(client))
    await client.close()


async def test_who_comes_back_in_time_gets_what_waited() -> None:
    """Nothing was sent, so that even a settlement is tried again."""
    port = free_port()
    server = Server([answer(200, b'{"Sends":["SENT"]}')])
    client = client_of(port, LATE_S)
    putting = asyncio.create_task(HttpQueuePort(client).enqueue([PUT]))
    await asyncio.sleep(0)
    async with await asyncio.start_server(server.handle, "127.0.0.1", port):
        await putting
    await client.close()
    assert len(server.requests) == 1


async def test_a_receive_under_way_ends_with_the_stop() -> None:
    client = client_of(free_port())
    port = HttpQueuePort(client)
    receiving = asyncio.create_task(port.receive("publish-jobs", 1, 30_000, 20))
    await asyncio.sleep(0)
    port.stop_waiting()
    assert await receiving == []
    await client.close()
