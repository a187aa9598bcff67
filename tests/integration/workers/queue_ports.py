"""One CQS on a port of its own, and the drivers of the queue port that lead to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from cns.queue_port.contract import QueuePort
from cns_backend.backend import Backend
from cns_backend.queue_port import queue_port
from cns_backend.services import queue_service
from cns_backend.store_host import StoreHost
from cns_common.aws.auth.accounts import AccessKey
from cns_common.aws.auth.request_signing import SigningCredential, sign
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.ids import hex_id
from cns_common.metrics.catalogue import LONG_POLLS_WAITING
from cns_server.api import Api
from cns_server.listener import Listeners
from cqs.service import QueueService
from lab.harness.ports import free_port

TOPIC = "arn:aws:sns:us-east-1:111111111111:t"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cqs:
    """A service without workers, so that nobody else takes what is put."""

    settings: Settings
    backend: Backend
    queues: QueueService
    tenant: AccessKey

    @property
    def clock(self) -> Clock:
        return self.backend.clock

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings.port}/"

    async def polls_waiting(self) -> float:
        state = await self.backend.control.state()
        return sum(sample.value for sample in state.samples if sample.name == LONG_POLLS_WAITING.name)

    @asynccontextmanager
    async def port(self, driver: str) -> AsyncIterator[QueuePort]:
        port = await queue_port(self.settings.model_copy(update={"queue_port": driver}), self.backend, self.queues)
        try:
            yield port
        finally:
            await port.close()

    async def queue(self, *, open_to_topic: bool = True, **attributes: str) -> str:
        """A tenant's new queue's ARN; its policy lets `TOPIC` send unless told otherwise."""
        name = hex_id() + (".fifo" if "FifoQueue" in attributes else "")
        arn = f"arn:aws:sqs:us-east-1:{self.tenant.account}:{name}"
        if open_to_topic:
            allow = {
                "Effect": "Allow",
                "Principal": {"Service": "sns.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arn,
                "Condition": {"ArnEquals": {"aws:SourceArn": TOPIC}},
            }
            attributes["Policy"] = json.dumps({"Statement": [allow]})
        await self.queues.queues.create(self.tenant.account, "us-east-1", name, attributes, {})
        return arn

    async def received(self, queue_arn: str) -> list[dict[str, Any]]:
        """Receive from a tenant's queue, with all attributes."""
        name = queue_arn.rpartition(":")[2]
        members = {
            "QueueUrl": f"{self.url}{self.tenant.account}/{name}",
            "MaxNumberOfMessages": 10,
            "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        }
        answer = await self.post("AmazonSQS.ReceiveMessage", members)
        assert answer.status_code == 200, answer.text
        messages: list[dict[str, Any]] = answer.json().get("Messages", [])
        return messages

    async def post(self, target: str, members: object, key: AccessKey | None = None) -> httpx.Response:
        """One call, by the tenant unless another key is given."""
        return await self.send(target, json.dumps(members).encode(), key or self.tenant)

    async def send(self, target: str, body: bytes, key: AccessKey | None) -> httpx.Response:
        """With no key, unsigned."""
        headers = {"host": f"127.0.0.1:{self.settings.port}", "x-amz-target": target}
        if key is not None:
            headers |= sign(
                method="POST",
                path="/",
                headers=headers,
                body=body,
                credential=SigningCredential(key.key_id, key.secret, "us-east-1", "sqs"),
                now_ms=self.clock.wall_ms(),
            )
        async with httpx.AsyncClient(verify=False) as client:  # reading certificates takes longer than a call
            return await client.post(self.url, content=body, headers=headers)


@asynccontextmanager
async def serving(directory: Path, *, auth: str = "on") -> AsyncIterator[Cqs]:
    settings = Settings(data=directory, port=free_port(), auth=auth, events="off")  # type: ignore[arg-type]  # on or off
    host = StoreHost(settings)
    await host.start()
    tenant = await host.accounts.create(host.backend.clock.now_ms())
    until: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    api = await Api.build(settings, host.backend)
    listeners = Listeners(settings)
    served = asyncio.create_task(api.serve(listeners.duplicates(), until, listeners.close))
    try:
        yield Cqs(
            settings=settings, backend=host.backend, queues=await queue_service(settings, host.backend), tenant=tenant
        )
    finally:
        until.set_result(None)
        await served
        await host.close()
