"""An API process that was told to stop: balancers see it at once, calls are answered until they have, and polls end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cns_backend.store_host import StoreHost
from cns_common.configuration.settings import Settings
from cns_common.metrics.catalogue import LONG_POLLS_WAITING
from cns_server.api import Api
from cns_server.listener import Listeners
from lab.harness.ports import free_port
from lab.harness.waiting import PATIENCE_S

TURNS = 5
"""Turns of the event loop, in which the server's task begins to stop."""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Connection:
    """A connection that a client keeps."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, method: str, path: str, target: str = "", **members: Any) -> Answer:
        body = json.dumps(members).encode() if target else b""
        lines = [f"{method} {path} HTTP/1.1", "host: x", f"content-length: {len(body)}"]
        if target:
            lines += [f"x-amz-target: AmazonSQS.{target}", "content-type: application/x-amz-json-1.0"]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        answer = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Answer(int(head[0].split()[1]), headers, answer)

    async def is_ended(self) -> bool:
        return await self.reader.read() == b""


@dataclass
class Service:
    port: int
    api: Api
    until: asyncio.Future[None]
    served: asyncio.Task[None]
    listeners: Listeners
    balancers_know: asyncio.Event = field(default_factory=asyncio.Event)
    connections: list[Connection] = field(default_factory=list)

    async def connect(self) -> Connection:
        self.connections.append(Connection(*await asyncio.open_connection("127.0.0.1", self.port)))
        return self.connections[-1]

    async def page(self, path: str) -> int:
        return (await (await self.connect()).ask("GET", path)).status

    async def call(self, target: str, **members: Any) -> Answer:
        return await (await self.connect()).ask("POST", "/", target, **members)

    async def close(self) -> None:
        for connection in self.connections:
            connection.writer.close()
        await asyncio.gather(*[each.writer.wait_closed() for each in self.connections], return_exceptions=True)


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    settings = Settings(data=tmp_path, port=free_port(), auth="off", events="off", stop_delay_s=300)
    host = StoreHost(settings)
    await host.start()
    until: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    api = await Api.build(settings, host.backend)
    listeners = Listeners(settings)
    served = asyncio.create_task(api.serve(listeners.duplicates(), until))
    found = Service(settings.port, api, until, served, listeners)

    async def wait_for_balancers(self: Api, serving: asyncio.Task[None]) -> None:
        await found.balancers_know.wait()

    monkeypatch.setattr(Api, "_wait_for_balancers", wait_for_balancers)
    yield found
    found.balancers_know.set()
    if not until.done():
        until.set_result(None)
    await served
    await found.close()
    listeners.close()
    await host.close()


async def test_it_answers_until_balancers_know_and_then_ends_polls(service: Service) -> None:
    url = json.loads((await service.call("CreateQueue", QueueName="q")).body)["QueueUrl"]
    kept, polling = await service.connect(), await service.connect()
    assert "connection" not in (await kept.ask("POST", "/", "GetQueueUrl", QueueName="q")).headers
    poll = asyncio.create_task(polling.ask("POST", "/", "ReceiveMessage", QueueUrl=url, WaitTimeSeconds=20))
    await asyncio.wait_for(_until_polling(service), PATIENCE_S)
    assert await service.page("/live") == 200

    service.until.set_result(None)
    await asyncio.sleep(0)  # the server's task goes on
    assert [await service.page(path) for path in ("/live", "/ready")] == [404, 503]
    answer = await kept.ask("POST", "/", "GetQueueUrl", QueueName="q")
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert await kept.is_ended()
    assert (await service.call("GetQueueUrl", QueueName="q")).status == 200, "new connections are answered, too"
    assert not poll.done()

    service.balancers_know.set()
    ended = await asyncio.wait_for(poll, PATIENCE_S)
    assert (ended.status, ended.headers["connection"], json.loads(ended.body)) == (200, "close", {})
    assert await polling.is_ended()
    await asyncio.wait_for(service.served, PATIENCE_S)
    service.listeners.close()
    with pytest.raises(OSError):
        await service.connect()


async def test_a_poll_that_finds_something_while_it_leaves_is_answered(service: Service) -> None:
    url = json.loads((await service.call("CreateQueue", QueueName="q")).body)["QueueUrl"]
    polling = await service.connect()
    poll = asyncio.create_task(polling.ask("POST", "/", "ReceiveMessage", QueueUrl=url, WaitTimeSeconds=20))
    await asyncio.wait_for(_until_polling(service), PATIENCE_S)
    service.until.set_result(None)
    assert (await service.call("SendMessage", QueueUrl=url, MessageBody="late")).status == 200
    answer = await asyncio.wait_for(poll, PATIENCE_S)
    assert json.loads(answer.body)["Messages"][0]["Body"] == "late"
    assert answer.headers["connection"] == "close"


async def test_a_call_that_comes_while_it_stops_waits_for_the_successor(service: Service) -> None:
    kept = await service.connect()
    assert (await kept.ask("GET", "/live")).status == 200
    service.until.set_result(None)
    service.balancers_know.set()
    for _ in range(TURNS):
        await asyncio.sleep(0)
    waiting = asyncio.create_task(service.call("CreateQueue", QueueName="q"))
    assert (await kept.ask("POST", "/", "CreateQueue", QueueName="p")).status == 200, "an open connection is answered"
    await asyncio.wait_for(service.served, PATIENCE_S)
    (listening,) = service.listeners.duplicates()
    accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
    assert b"CreateQueue" in accepted.recv(4_096)
    accepted.close()
    listening.close()
    with pytest.raises((OSError, asyncio.IncompleteReadError)):
        await waiting


async def _until_polling(service: Service) -> None:
    while not _waiting(await service.api.metrics()):
        await asyncio.sleep(0.01)  # until the server has read the call


def _waiting(page: str) -> float:
    lines = [line for line in page.splitlines() if line.startswith(LONG_POLLS_WAITING.name) and '"client"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
