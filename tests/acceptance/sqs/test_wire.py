"""HTTP/1.1 as clients of all kinds write it, byte for byte, to the port of `cns up`."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from io import BufferedReader
from typing import Any

import pytest

from lab.harness.service import REGION, Service
from lab.harness.waiting import wait_until

HOST = "localhost"
TIMEOUT_S = 1_200.0


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection."""

    def __init__(self, connection: socket.socket, reader: BufferedReader) -> None:
        self._connection = connection
        self._reader = reader

    def write(self, raw: bytes) -> None:
        self._connection.sendall(raw)

    def read(self) -> Reply:
        status = int(self._reader.readline().split()[1])
        headers = {}
        while line := self._reader.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return Reply(status, headers, self._reader.read(int(headers.get("content-length", 0))))

    def ended(self) -> bool:
        """Whether the server has closed, and said nothing more."""
        try:
            return self._reader.read() == b""
        except ConnectionResetError:  # the server closed without reading the whole request
            return True


@contextmanager
def connected(service: Service) -> Iterator[Wire]:
    port = int(service.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection, connection.makefile("rb") as reader:
        yield Wire(connection, reader)


@pytest.fixture
def wire(open_service: Service) -> Iterator[Wire]:
    with connected(open_service) as opened:
        yield opened


@pytest.fixture
def queue(open_service: Service, new_name: Any) -> str:
    return str(open_service.client("sqs").create_queue(QueueName=new_name())["QueueUrl"])


def call(action: str, *, version: str = "1.1", headers: tuple[str, ...] = (), **members: object) -> bytes:
    """An SQS call in the JSON protocol."""
    body = json.dumps(members).encode()
    lines = [
        f"POST / HTTP/{version}",
        f"Host: {HOST}",
        "Content-Type: application/x-amz-json-1.0",
        f"X-Amz-Target: AmazonSQS.{action}",
        f"Authorization: AWS4-HMAC-SHA256 Credential=test/20261121/{REGION}/sqs/aws4_request",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def send(queue: str, text: str) -> bytes:
    return call("SendMessage", QueueUrl=queue, MessageBody=text)


def receive(queue: str, wait_s: int = 0) -> bytes:
    return call("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=wait_s)


def test_pipelined_calls_are_answered_in_their_order(wire: Wire, queue: str) -> None:
    calls = []
    for number in range(100):
        calls += [send(queue, str(number)), call("GetQueueUrl", QueueName=queue.rpartition("/")[2])]
    wire.write(b"".join(calls))
    replies = [wire.read() for _ in calls]
    assert {reply.status for reply in replies} == {200}
    assert [set(reply.json()) for reply in replies] == [{"MessageId", "MD5OfMessageBody"}, {"QueueUrl"}] * 100


def test_calls_wait_behind_a_pipelined_poll(open_service: Service, wire: Wire, queue: str) -> None:
    wire.write(receive(queue, wait_s=10) + call("ListQueues"))
    with connected(open_service) as other:
        other.write(send(queue, "wakes it"))
        assert other.read().status == 200
    (message,) = wire.read().json()["Messages"]
    assert message["Body"] == "wakes it"
    assert "QueueUrls" in wire.read().json()


@pytest.mark.spec("protocol.date")
def test_every_answer_is_dated(wire: Wire) -> None:
    """SDKs set their clocks by it. The server renews it each second."""

    def dated_s(asked: bytes, status: int) -> float:
        wire.write(asked)
        reply = wire.read()
        assert reply.status == status
        return parsedate_to_datetime(reply.headers["date"]).timestamp()

    def is_now(asked: bytes, status: int) -> None:
        now_s = int(time.time())
        wait_until(lambda: dated_s(asked, status) >= now_s)
        assert dated_s(asked, status) <= time.time()

    for asked, status in ((call("ListQueues"), 200), (call("Nonsense"), 400), (call("DeleteQueue"), 400)):
        is_now(asked, status)


def test_pages_and_calls_share_a_connection(wire: Wire) -> None:
    page = f"GET /health HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    wire.write(page + call("ListQueues") + page)
    assert wire.read().json()["status"] in ("green", "yellow")
    assert wire.read().headers["content-type"] == "application/x-amz-json-1.0"
    assert wire.read().json()["status"] in ("green", "yellow")


def test_who_expects_100_is_told_to_continue(wire: Wire, queue: str) -> None:
    head, _, body = call(
        "SendMessage", headers=("Expect: 100-continue",), QueueUrl=queue, MessageBody="asked first"
    ).partition(b"\r\n\r\n")
    wire.write(head + b"\r\n\r\n")
    assert wire.read().status == 100
    wire.write(body)
    assert wire.read().status == 200


@pytest.mark.parametrize(
    ("version", "headers"), [("1.1", ("Connection: close",)), ("1.0", ())], ids=["close", "HTTP/1.0"]
)
def test_a_last_call(wire: Wire, version: str, headers: tuple[str, ...]) -> None:
    wire.write(call("ListQueues", version=version, headers=headers))
    reply = wire.read()
    assert (reply.status, reply.headers["connection"]) == (200, "close")
    assert wire.ended()


@pytest.mark.spec("protocol.largest-body")
def test_the_longest_legal_body_is_taken(wire: Wire, queue: str) -> None:
    """1 MiB of a character that Python's JSON, and so boto3, writes in six."""
    request = send(queue, "\x7f" * 1_048_576)
    assert len(request) > 6 * 1_048_576
    wire.write(request)
    assert wire.read().status == 200


@pytest.mark.spec("protocol.unknown-action-echo")
def test_an_unknown_action_is_not_echoed_at_length(wire: Wire) -> None:
    wire.write(f"GET /?Action={'<' * 15_000} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    reply = wire.read()
    assert reply.status == 400
    assert reply.body.count(b"&lt;") == 100


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # a TLS client on the plain port
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        b"POST / HTTP/1.1\r\nno colon\r\n\r\n",
    ],
)
def test_what_is_no_http(wire: Wire, raw: bytes) -> None:
    wire.write(raw)
    assert wire.read().status == 400
    assert wire.ended()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /%00/x HTTP/1.1", 404),
        ("GET /nothing/here HTTP/1.1", 404),
        ("OPTIONS / HTTP/1.1", 400),
        ("HEAD /live HTTP/1.1", 200),
        ("DELETE /live HTTP/1.1", 405),
        ("GET /?Action=%ff%fe HTTP/1.1", 400),
        ("PUT / HTTP/1.1", 400),
    ],
)
def test_odd_requests_have_plain_answers(wire: Wire, head: str, status: int) -> None:
    wire.write(f"{head}\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
    reply = wire.read()
    assert (reply.status, b"Traceback" in reply.body, b"detail" in reply.body) == (status, False, False)
