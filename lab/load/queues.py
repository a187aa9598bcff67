"""A client of the queues of one server: its connections, the requests that it signs, and what it reads of answers."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice

import msgspec

from lab.harness.server import Server
from lab.harness.signing import QuerySigner, Signer
from lab.load.wire import Lane, LoadError, Script, connect, run

BODY_BYTES = 1024
BATCH = 10
VARIANTS = 1024
"""Number of different sends that are signed before the clock starts and sent in turn: a signature is valid for 15
minutes."""
HIDE_S = 600
RECEIVE_VARIANTS = 240
"""Receives have no body that differs, so each is signed for another second."""
ALPHABET = b"abcdefghijklmnopqrstuvwxyz0123456789-_"

_HANDLE = re.compile(rb'ReceiptHandle(?:": *"|>)([^"<\s]+)')
"""In JSON, and in the Query protocol's XML."""
_REFUSED = re.compile(rb'"Failed": *\[ *[^] ]|<BatchResultErrorEntry>')
"""Other programs than ours name an empty list as well."""
_URL = re.compile("<QueueUrl>([^<]+)<")
_ATTRIBUTE = re.compile(r"<Name>(\w+)</Name>\s*<Value>([^<]*)<")


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

    async def attributes(self, *names: str) -> dict[str, str]:
        """Attributes of its queue; by default all."""
        answer = await self.ask("GetQueueAttributes", QueueUrl=self.url, AttributeNames=names or ["All"])
        return msgspec.convert(answer["Attributes"], dict[str, str])

    async def connect_anew(self) -> None:
        """Replace connections that the server may have closed because they were idle."""
        self.close()
        self.lanes = await connect(self.server.port, len(self.lanes))

    async def use_queue(self, name: str, **attributes: str) -> None:
        members: dict[str, object] = {"QueueName": name}
        if attributes:
            members["Attributes"] = attributes
        self.url = str((await self.ask("CreateQueue", **members))["QueueUrl"])

    async def run(self, requests: Iterable[bytes]) -> None:
        """Send all requests over all connections. Raises LoadError if an entry of a batch is refused."""
        left = iter(requests)

        def script() -> Script:
            for request in left:
                accepted((yield [], request))

        await run(self.lanes, [script() for _ in self.lanes])

    def call(self, operation: str, at_s: int | None = None, /, **members: object) -> bytes:
        return self.signer.call(operation, msgspec.json.encode({"QueueUrl": self.url, **members}), at_s)

    def send_batch(self, messages: Iterable[dict[str, str]]) -> bytes:
        """A batch of messages, of which each is the members besides its id."""
        entries = [{"Id": str(place), **message} for place, message in enumerate(messages)]
        return self.call("SendMessageBatch", Entries=entries)

    def receive(self, n: int, hide_s: int = HIDE_S) -> bytes:
        return self.call("ReceiveMessage", MaxNumberOfMessages=n, VisibilityTimeout=hide_s)

    def delete(self, handle: bytes) -> bytes:
        return self.signer.call(
            "DeleteMessage", b'{"QueueUrl":"%s","ReceiptHandle":"%s"}' % (self.url.encode(), handle)
        )

    def delete_batch(self, handles: Sequence[bytes]) -> bytes:
        entries = b",".join([b'{"Id":"%d","ReceiptHandle":"%s"}' % entry for entry in enumerate(handles)])
        return self.signer.call(
            "DeleteMessageBatch", b'{"QueueUrl":"%s","Entries":[%s]}' % (self.url.encode(), entries)
        )

    def receives(self, n: int, **members: object) -> list[bytes]:
        """The same receive, signed for each of the last `RECEIVE_VARIANTS` seconds."""
        now_s = int(time.time())
        return [
            self.call("ReceiveMessage", at_s, MaxNumberOfMessages=n, VisibilityTimeout=HIDE_S, **members)
            for at_s in range(now_s - RECEIVE_VARIANTS, now_s)
        ]

    def sends(self) -> list[bytes]:
        """Different sends of single messages."""
        return [self.call("SendMessage", MessageBody=self.body()) for _ in range(VARIANTS)]

    def body(self) -> str:
        return bytes(self.random.choices(ALPHABET, k=BODY_BYTES)).decode()

    def close(self) -> None:
        for lane in self.lanes:
            lane.close()


class QueryClient(Client):
    """A client of a server that knows queues by the older Query protocol only."""

    def __init__(self, server: Server, lanes: list[Lane], seed: int) -> None:
        super().__init__(server, lanes, seed)
        self.signer = QuerySigner(server.credentials, "sqs", f"127.0.0.1:{server.port}")

    async def ask(self, operation: str, **members: object) -> dict[str, object]:
        """Reads what the lab asks for: a queue's URL and attributes."""
        answer = (await self.lanes[0].ask(self.signer.call(operation, msgspec.json.encode(members)))).decode()
        url = _URL.search(answer)
        return {"QueueUrl": url[1] if url else "", "Attributes": dict(_ATTRIBUTE.findall(answer))}


async def open_client(server: Server, connections: int, seed: int, queue: str = "", **attributes: str) -> Client:
    """With a queue, if it is named."""
    client = (QueryClient if server.query else Client)(server, await connect(server.port, connections), seed)
    if queue:
        await client.use_queue(queue, **attributes)
    return client


def turns(requests: list[bytes], lane: int) -> Iterator[bytes]:
    """All requests in a cycle, which each connection starts at another place."""
    return islice(cycle(requests), lane * 17 % len(requests), None)


def handles_in(answer: bytes) -> list[bytes]:
    """The receipt handles of a receive's answer."""
    return _HANDLE.findall(answer)


def handles_of(answer: bytes, n: int) -> list[bytes]:
    """The handles of an answer that has to have so many."""
    handles = handles_in(answer)
    if len(handles) != n:
        raise LoadError(f"a receive of {n} gave {len(handles)} although as many are there")
    return handles


def accepted(answer: bytes) -> bytes:
    """The answer. Raises LoadError if an entry of a batch is refused."""
    if _REFUSED.search(answer):
        raise LoadError("an entry of a batch was refused")
    return answer
