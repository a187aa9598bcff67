"""How much of a dead-letter queue a page of the portal reads, and how often."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.limits import Quotas
from cns_common.clock import Clock
from cns_server.portal.past_messages import LETTERS_FRESH_MS, LISTED_BYTES_MAX, PEEKED_MESSAGES, PastMessages
from cqs.engines.contract import PeekPage, QueueRef
from tests.integration.cqs.sqs import Sqs, open_sqs
from tests.integration.sns.cns_support import Rig, open_rig


class Portal:
    """The past messages of a subscription to an archived FIFO topic, whose letters have no signatures."""

    def __init__(self, sqs: Sqs, rig: Rig, topic: str, url: str, queue: str) -> None:
        self._sqs = sqs
        self._url = url
        self._queue = queue
        self._topic = topic
        self._past = PastMessages(rig.topics, rig.archives, sqs.service, lambda _: None)
        self.peeks = 0
        real = sqs.engine.peek

        async def peek(q: QueueRef, cursor: str, n: int, now_ms: int) -> PeekPage:
            self.peeks += 1
            return await real(q, cursor, n, now_ms)

        sqs.engine.peek = peek  # type: ignore[method-assign]  # it counts

    async def send(self, text: str) -> None:
        await self._sqs.send(self._url, text)

    async def letter(self, message_id: str) -> None:
        members = {
            "Type": "Notification",
            "MessageId": message_id,
            "TopicArn": self._topic,
            "Message": "text",
            "Timestamp": "2026-01-02T03:04:05.678Z",
            "UnsubscribeURL": f"http://localhost/?Action=Unsubscribe&SubscriptionArn={self._topic}:s",
        }
        await self.send(json.dumps(members))

    async def listed(self) -> list[str]:
        return [one.message_id for one in (await self._past.dead_letters(f"{self._topic}:s", self._queue)).letters]


@pytest.fixture
def clock() -> Clock:
    return Clock(test=True)


@pytest.fixture
async def portal(tmp_path: Path, clock: Clock) -> AsyncIterator[Portal]:
    async with open_rig(tmp_path / "sns", clock, Quotas()) as rig, open_sqs(tmp_path / "sqs", clock) as sqs:
        policy = json.dumps({"MessageRetentionPeriod": "1"})
        topic = await rig("CreateTopic", Name="t.fifo", Attributes={"FifoTopic": "true", "ArchivePolicy": policy})
        url = await sqs.queue("dead")
        yield Portal(sqs, rig, topic["TopicArn"], url, await sqs.arn(url))


async def test_pages_in_quick_succession_read_the_queue_once(portal: Portal, clock: Clock) -> None:
    await portal.letter("a")
    assert await portal.listed() == ["a"]
    await portal.letter("b")
    clock.advance(LETTERS_FRESH_MS // 2)
    assert (await portal.listed(), portal.peeks) == (["a"], 1)
    clock.advance(LETTERS_FRESH_MS)
    assert (await portal.listed(), portal.peeks) == (["a", "b"], 2)


async def test_a_page_reads_so_many_bytes(portal: Portal) -> None:
    await portal.letter("first")
    size = LISTED_BYTES_MAX // (PEEKED_MESSAGES - 1)
    await asyncio.gather(*[portal.send("x" * size) for _ in range(3 * PEEKED_MESSAGES)])
    assert (await portal.listed(), portal.peeks) == (["first"], 1)


async def test_letters_are_decoded_in_another_thread(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def letters_of(*_: object) -> list[object]:
        threads.append(threading.get_ident())
        return []

    monkeypatch.setattr("cns_server.portal.past_messages.letters_of", letters_of)
    await portal.letter("a")
    assert await portal.listed() == []
    assert threads and threading.get_ident() not in threads
