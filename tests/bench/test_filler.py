"""The filler of deep queues sends as many messages as it says, within its time, and what it sends can be received."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cns_common.clock import Clock
from cns_common.errors import StoreUnavailable
from cqs.engines.contract import Entry, QueueRef, RejectedEntry, SentEntry
from cqs.queues.model import decode_body
from lab.bench.engines.filler import ENTRIES, send_all
from lab.harness.waiting import PATIENCE_S
from tests.conformance.drivers import Driver

TEXT = "some text"
MD5 = "552e21cd4cd9918678e3c1a0df491bc3"
MESSAGES = 2 * ENTRIES + 7


async def test_it_fills_a_queue_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A send fails at first: its batch is sent again."""
    clock = Clock()
    async with Driver("embedded", tmp_path, clock).open() as engine:
        q, send, failures = QueueRef("deep", False, 86_400_000), engine.send, [StoreUnavailable("busy")]

        async def send_at_last(q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
            if failures:
                raise failures.pop()
            return await send(q, entries, now_ms)

        monkeypatch.setattr(engine, "send", send_at_last)
        assert await send_all(engine, q, clock, TEXT, MESSAGES, PATIENCE_S) == MESSAGES
        assert not failures
        assert (await engine.counts(q, clock.now_ms())).visible == MESSAGES
        (message,) = (await engine.receive(q, 1, clock.now_ms() + 1_000, clock.now_ms())).messages
        body = decode_body(message.body)
        assert (body.text, body.md5) == (TEXT, MD5)


async def test_without_time_it_sends_nothing(tmp_path: Path) -> None:
    clock = Clock()
    async with Driver("embedded", tmp_path, clock).open() as engine:
        q = QueueRef("deep", False, 86_400_000)
        assert await send_all(engine, q, clock, TEXT, MESSAGES, 0) == 0
        assert (await engine.counts(q, clock.now_ms())).visible == 0
