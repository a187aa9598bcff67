"""The operations of the queue service, called directly with the members that a test needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cns_common.aws.call import Call, Caller, WhenGone, root_caller
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.sqlite.database import Database
from cqs.api import operations
from cqs.engines.contract import QueueRef, ReceiveResult, Waiter
from cqs.engines.embedded.engine import EmbeddedEngine
from cqs.limits import RECREATE_WAIT_S
from cqs.messages.receipt_handle import KEY_BYTES
from cqs.queues.queues import QueueWaits
from cqs.service import QueueService
from cqs.stores.contract import MoveTaskStore
from cqs.stores.embedded.move_tasks import EmbeddedMoveTaskStore
from cqs.stores.embedded.queues import EmbeddedQueueStore
from tests.recorded_events import RecordedAudit

ACCOUNT = "000000000000"
OTHER_ACCOUNT = "111111111111"
BASE_URL = "http://localhost:6059"


class WatchedEngine(EmbeddedEngine):
    """The embedded engine, which signals when a poll waits and counts receives."""

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, clock)
        self.waiting = asyncio.Event()
        self.receives = 0

    async def receive(
        self, q: QueueRef, want: int, visible_at_ms: int, now_ms: int, attempt_id: str = ""
    ) -> ReceiveResult:
        self.receives += 1
        return await super().receive(q, want, visible_at_ms, now_ms, attempt_id)

    def waiter(self, q: QueueRef) -> WatchedWaiter:  # type: ignore[override]  # it wraps the contract's waiter
        return WatchedWaiter(super().waiter(q), self.waiting)


class WatchedWaiter:
    def __init__(self, waiter: Waiter, waiting: asyncio.Event) -> None:
        self._waiter = waiter
        self._waiting = waiting

    @property
    def closed(self) -> bool:
        return self._waiter.closed

    async def wait(self, timeout_s: float | None = None) -> bool:
        self._waiting.set()
        return await self._waiter.wait(timeout_s)

    def pass_on(self) -> None:
        self._waiter.pass_on()

    def close(self) -> None:
        self._waiter.close()


class Sqs:
    """Calls as `ACCOUNT` in us-east-1 unless told otherwise."""

    def __init__(
        self,
        service: QueueService,
        clock: Clock,
        store: EmbeddedQueueStore,
        engine: WatchedEngine,
        audit: RecordedAudit | None = None,
    ) -> None:
        self.audit = audit or RecordedAudit()
        self.service = service
        self.clock = clock
        self.store = store
        self.engine = engine
        self._operations = operations(service)

    async def __call__(
        self,
        action: str,
        *,
        caller: Caller | None = None,
        region: str = "us-east-1",
        path: str = "/",
        when_gone: WhenGone | None = None,
        trace_header: str = "",
        facts: dict[str, str] | None = None,
        policies_enforced: bool = True,
        **members: Any,
    ) -> dict[str, Any]:
        call = Call(
            caller=caller or root_caller(ACCOUNT),
            region=region,
            request_id="request",
            base_url=BASE_URL,
            source_ip="192.0.2.7",
            path=path,
            trace_header=trace_header,
            facts=facts or {},
            when_gone=when_gone,
            policies_enforced=policies_enforced,
        )
        return await self._operations[action](call, members)

    async def queue(self, name: str = "q", **attributes: str) -> str:
        """The URL of a new queue."""
        if name.endswith(".fifo"):
            attributes["FifoQueue"] = "true"
        url: str = (await self("CreateQueue", QueueName=name, Attributes=attributes))["QueueUrl"]
        return url

    async def send(self, url: str, body: str = "hello", **members: Any) -> dict[str, Any]:
        return await self("SendMessage", QueueUrl=url, MessageBody=body, **members)

    async def receive(self, url: str, n: int = 10, **members: Any) -> list[dict[str, Any]]:
        received = await self("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=n, **members)
        messages: list[dict[str, Any]] = received["Messages"]
        return messages

    async def bodies(self, url: str, n: int = 10, **members: Any) -> list[str]:
        return [message["Body"] for message in await self.receive(url, n, **members)]

    async def poll(self, url: str, wait_s: int = 20, n: int = 10, **members: Any) -> asyncio.Task[list[dict[str, Any]]]:
        """A long poll that is waiting."""
        self.engine.waiting.clear()
        task = asyncio.create_task(self.receive(url, n, WaitTimeSeconds=wait_s, **members))
        await self.engine.waiting.wait()
        return task

    async def delete(self, url: str, message: dict[str, Any]) -> None:
        await self("DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    async def hide(self, url: str, message: dict[str, Any], timeout_s: int) -> None:
        await self(
            "ChangeMessageVisibility",
            QueueUrl=url,
            ReceiptHandle=message["ReceiptHandle"],
            VisibilityTimeout=timeout_s,
        )

    async def attributes(self, url: str, *names: str) -> dict[str, str]:
        answer = await self("GetQueueAttributes", QueueUrl=url, AttributeNames=list(names) or ["All"])
        attributes: dict[str, str] = answer["Attributes"]
        return attributes

    async def arn(self, url: str) -> str:
        return (await self.attributes(url, "QueueArn"))["QueueArn"]

    async def counts(self, url: str) -> tuple[int, int, int]:
        """(visible, in flight, delayed)"""
        shown = await self.attributes(url)
        prefix = "ApproximateNumberOfMessages"
        return int(shown[prefix]), int(shown[prefix + "NotVisible"]), int(shown[prefix + "Delayed"])

    def advance(self, seconds: float) -> None:
        self.clock.advance(int(seconds * 1000))


@asynccontextmanager
async def open_sqs(directory: Path, clock: Clock, *, recreate_wait_s: int = RECREATE_WAIT_S) -> AsyncIterator[Sqs]:
    database = Database(directory, clock)
    store = EmbeddedQueueStore(database)
    engine = WatchedEngine(database, clock)
    database.start(asyncio.get_running_loop())
    moves = EmbeddedMoveTaskStore(database)
    audit = RecordedAudit()
    service = QueueService(
        store,
        moves,
        {"embedded": engine},
        clock,
        receipt_key=bytes(KEY_BYTES),
        audit_log=audit,
        waits=QueueWaits(recreate_s=recreate_wait_s),
    )
    await service.start()
    yield Sqs(service, clock, store, engine, audit)
    await database.close()


@asynccontextmanager
async def open_beside(
    sqs: Sqs, directory: Path, **kinds: type[WatchedEngine]
) -> AsyncIterator[tuple[Sqs, list[WatchedEngine]]]:
    """A service on the store of `sqs` that runs these engines beside the embedded one, and the engines."""
    databases = [Database(directory / name, sqs.clock) for name in kinds]
    engines = [kind(database, sqs.clock) for kind, database in zip(kinds.values(), databases, strict=True)]
    moves = EmbeddedMoveTaskStore(databases[0])
    for database in databases:
        database.start(asyncio.get_running_loop())
    yield another_process(sqs, moves, **dict(zip(kinds, engines, strict=True))), engines
    for database in databases:
        await database.close()


def another_process(sqs: Sqs, moves: MoveTaskStore, **engines: WatchedEngine) -> Sqs:
    running = {"embedded": sqs.engine, **engines}
    service = QueueService(sqs.store, moves, running, sqs.clock, receipt_key=bytes(KEY_BYTES))
    return Sqs(service, sqs.clock, sqs.store, next(iter(engines.values())))


async def refused(awaitable: Awaitable[Any]) -> tuple[str, str]:
    """The code and text of the error that the call must raise."""
    with pytest.raises(RequestError) as caught:
        await awaitable
    return caught.value.code, caught.value.message
