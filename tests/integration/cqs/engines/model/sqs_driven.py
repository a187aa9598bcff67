"""A service with a stopped clock, driven step by step from outside its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cns_backend.engines import DEFAULT_EMBEDDED_ENGINE
from cns_common.clock import Clock
from cns_common.sqlite.database import Database
from cqs.engines.contract import PeekedMessage
from cqs.messages.receipt_handle import KEY_BYTES
from cqs.service import QueueService
from cqs.stores.embedded.move_tasks import EmbeddedMoveTaskStore
from tests.conformance.drivers import CLUSTER, Driver
from tests.integration.cqs.engines.model.sqs_model import VisibleQueue
from tests.integration.cqs.sqs import ACCOUNT, Sqs, open_sqs

PAGE = 1_000


class StillClock(Clock):
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self._start_ms = super().now_ms()

    def now_ms(self) -> int:
        return self._start_ms + self.offset_ms

    def wall_ms(self) -> int:
        return self._start_ms


class StillMessageClock(StillClock):
    """The time of messages stands still; leases and dates of writes are by a clock that Cassandra's agrees with."""

    def wall_ms(self) -> int:
        return self.real_ms()


class Service:
    """A service that stays open for all examples; each example has its own queues, of the engine of this name."""

    def __init__(self, directory: Path, engine: str = DEFAULT_EMBEDDED_ENGINE) -> None:
        self.engine = engine
        self._runner = asyncio.Runner()
        self._serving = _on_cassandra(directory, engine) if engine in CLUSTER else open_sqs(directory, StillClock())
        self.sqs: Sqs = self.run(self._serving.__aenter__())

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(call)

    def close(self) -> None:
        self.run(self._serving.__aexit__(None, None, None))
        self._runner.close()


@asynccontextmanager
async def _on_cassandra(directory: Path, name: str) -> AsyncIterator[Sqs]:
    """With an engine beside the embedded one, in which the queues' settings are."""
    clock = StillMessageClock()
    async with open_sqs(directory, clock) as sqs, Driver(name, directory, clock).open() as engine:
        database = Database(directory / "moves", clock)
        moves = EmbeddedMoveTaskStore(database)
        database.start(asyncio.get_running_loop())
        engines = {DEFAULT_EMBEDDED_ENGINE: sqs.engine, name: engine}
        service = QueueService(sqs.store, moves, engines, clock, receipt_key=bytes(KEY_BYTES))
        yield Sqs(service, clock, sqs.store, sqs.engine)
        await database.close()


class Queue:
    """A queue, its model, and all receipt handles ever given for it."""

    def __init__(self, service: Service, name: str, seen: VisibleQueue) -> None:
        self.service = service
        self.name = name
        self.seen = seen
        attributes = {"Engine": service.engine, **({"ContentBasedDeduplication": "true"} if seen.fifo else {})}
        self.url: str = service.run(service.sqs.queue(name, **attributes))
        self.handles: list[str] = []
        self.delay_s = 0

    def __call__(self, action: str, **members: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.service.run(self.service.sqs(action, QueueUrl=self.url, **members))
        return answer

    def set(self, **attributes: str) -> None:
        self("SetQueueAttributes", Attributes=attributes)

    def peek(self) -> dict[str, PeekedMessage]:
        """All messages by id."""
        sqs, run = self.service.sqs, self.service.run
        view = run(sqs.service.cache.find((ACCOUNT, "us-east-1", self.name)))
        page = run(view.engine.peek(view.ref, "", PAGE, sqs.clock.now_ms()))
        assert not page.cursor
        return {peeked.id: peeked for peeked in page.messages}
