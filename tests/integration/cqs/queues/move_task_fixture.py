"""Fixtures of move task tests: a queue, its dead-letter queue, another queue, and a runner of move tasks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from cns_backend.stores.embedded.leases import EmbeddedLeaseStore
from cns_workers.background.leased_tasks import LeasedTaskRunner
from cns_workers.background.move_tasks import MoveTasks
from lab.harness.waiting import PATIENCE_S
from tests.integration.cqs.sqs import Sqs


class MoveTaskFixture:
    """A queue, its dead-letter queue, another queue, and a runner of move tasks that tests step by hand."""

    def __init__(self, sqs: Sqs, source: str, dead: str, other: str) -> None:
        self.sqs = sqs
        self.source, self.dead, self.other = source, dead, other
        self.tasks = sqs.service.move_tasks
        self.mover = sqs.service.mover
        self.runner = LeasedTaskRunner(
            MoveTasks(self.tasks.store, self.mover, sqs.clock), EmbeddedLeaseStore(), sqs.clock
        )

    async def start(self, **members: Any) -> str:
        answer = await self.sqs("StartMessageMoveTask", SourceArn=await self.sqs.arn(self.dead), **members)
        handle: str = answer["TaskHandle"]
        return handle

    async def listed(self, **members: Any) -> list[dict[str, Any]]:
        answer = await self.sqs("ListMessageMoveTasks", SourceArn=await self.sqs.arn(self.dead), **members)
        results: list[dict[str, Any]] = answer["Results"]
        return results

    async def die(self, *bodies: str, **members: Any) -> None:
        """Send messages and receive them twice, so that they are in the dead-letter queue."""
        for number, body in enumerate(bodies):
            if self.source.endswith(".fifo"):
                members["MessageDeduplicationId"] = f"{body}-{number}"
            await self.sqs.send(self.source, body, **members)
        for _ in range(len(bodies) + 1):
            await self.sqs.receive(self.source)
            self.sqs.advance(31)
        assert (await self.sqs.counts(self.dead))[0] == len(bodies)

    async def end(self) -> dict[str, Any]:
        """The newest task, after its end."""
        stepping = asyncio.create_task(self._step())
        try:
            async with asyncio.timeout(PATIENCE_S):
                while (task := (await self.listed())[0])["Status"] in ("RUNNING", "CANCELLING"):
                    await asyncio.sleep(0.01)  # the runner's tasks run concurrently
        finally:
            stepping.cancel()
        return task

    async def _step(self) -> None:
        while True:
            await self.runner.step()


async def move_site(sqs: Sqs, suffix: str = "") -> MoveTaskFixture:
    dead, other = await sqs.queue(f"dead{suffix}"), await sqs.queue(f"other{suffix}")
    policy = json.dumps({"deadLetterTargetArn": await sqs.arn(dead), "maxReceiveCount": 1})
    return MoveTaskFixture(sqs, await sqs.queue(f"source{suffix}", RedrivePolicy=policy), dead, other)
