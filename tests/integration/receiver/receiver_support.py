"""A fault receiver in the test's own event loop, and a client that posts to it like a notification service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from cns.delivery.envelope import MessageType, http_headers
from cns_receiver.receiver import DEFAULTS, Receiver, ReceiverOptions

TOPIC = "arn:aws:sns:us-east-1:000000000000:orders"
SUBSCRIPTION = f"{TOPIC}:11111111-2222-3333-4444-555555555555"


class Client:
    """Posts messages to the receiver, and reads and changes its pages."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.session = session

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def notify(self, endpoint: str, message_id: str = "m-1", body: bytes = b"{}", **headers: str) -> int:
        return await self._post(endpoint, body, headers_of(MessageType.NOTIFICATION, message_id) | headers)

    async def post_confirmation(self, endpoint: str, subscribe_url: str, message_id: str = "c-1") -> int:
        body = json.dumps({"TopicArn": TOPIC, "SubscribeURL": subscribe_url}).encode()
        return await self._post(endpoint, body, headers_of(MessageType.SUBSCRIPTION_CONFIRMATION, message_id))

    async def show(self, endpoint: str, **query: str | int) -> dict[str, Any]:
        """An endpoint's summary. With a counter in `query`, wait until it has reached that number."""
        path = f"/endpoint/{endpoint}"
        async with self.session.get(self.url + path, params={"wait_s": 10, **query}) as answer:
            assert answer.status == 200, await answer.text()
            shown: dict[str, Any] = await answer.json()
        return shown

    async def ids(self, endpoint: str, query: str = "") -> dict[str, int]:
        async with self.session.get(f"{self.url}/endpoint/{endpoint}/ids{query}") as answer:
            ids: dict[str, int] = (await answer.json())["ids"]
        return ids

    async def put_page(self, endpoint: str, page: str, content: object) -> int:
        async with self.session.put(f"{self.url}/endpoint/{endpoint}/{page}", json=content) as answer:
            return answer.status

    async def delete(self, path: str) -> int:
        async with self.session.delete(f"{self.url}/endpoint/{path}") as answer:
            return answer.status

    async def _post(self, endpoint: str, body: bytes, headers: dict[str, str]) -> int:
        url = f"{self.url}/endpoint/{endpoint}"
        async with self.session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
            return answer.status


def headers_of(message_type: MessageType, message_id: str) -> dict[str, str]:
    return http_headers(message_type, message_id, TOPIC, SUBSCRIPTION)


@asynccontextmanager
async def start_receiver(options: ReceiverOptions = DEFAULTS) -> AsyncIterator[Client]:
    receiver = Receiver(options)
    url = await receiver.start("127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        try:
            yield Client(url, session)
        finally:
            await receiver.close()


class SenderService:
    """The notification service that SubscribeURLs and SigningCertURLs point at."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[], web.Response]] = {}  # path → answer
        self.requested_paths: list[str] = []
        self.url = ""

    def subscribe_url(self, token: str = "t") -> str:
        return f"{self.url}/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token={token}"

    async def answer(self, request: web.Request) -> web.Response:
        self.requested_paths.append(request.path_qs)
        return self.answers.get(request.path, lambda: web.Response(status=404))()


@asynccontextmanager
async def start_sender_service() -> AsyncIterator[SenderService]:
    service = SenderService()
    runner = web.ServerRunner(web.Server(service.answer))  # type: ignore[arg-type]  # aiohttp passes a Request
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield service
    finally:
        await runner.cleanup()


async def send_bytes(port: int, *parts: bytes) -> bytes:
    """Send bytes on a bare connection. Returns all that arrives until the receiver closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
    try:
        await writer.drain()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()
