"""An engine's own attributes: given at CreateQueue, shown, changed where they are live, and seen by the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cqs.engines.contract import Entry, QueueRef, RejectedEntry, SentEntry
from cqs.engines.options import EngineOption
from tests.integration.cqs.sqs import Sqs, WatchedEngine, another_process, open_beside, refused


def _size(text: str) -> str:
    if not text.isdigit() or not 1 <= int(text) <= 1_000:
        raise ValueError("a number from 1 to 1000")
    return str(int(text))


HINT = EngineOption("OrderHint", "auto", str.lower, live=True)
SIZE = EngineOption("BucketSize", "100", _size, live=False)
FIXED = "Invalid value for the parameter BucketSize. Reason: It is set by CreateQueue and cannot be changed."
KEPT = "Invalid value for the parameter Engine. Reason: A queue keeps the engine that it was created with."


class OptionEngine(WatchedEngine):
    """Records the options of the queues that it is called with."""

    options: Mapping[str, EngineOption] = {HINT.name: HINT, SIZE.name: SIZE}
    seen: tuple[tuple[str, str], ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()

    async def send(self, q: QueueRef, entries: Sequence[Entry], now_ms: int) -> list[SentEntry | RejectedEntry]:
        self.seen = q.options
        return await super().send(q, entries, now_ms)

    async def drop(self, q: QueueRef, now_ms: int) -> None:
        self.dropped = q.options
        await super().drop(q, now_ms)


@dataclass
class Choice:
    """Two processes over one store, each with the engines `embedded` and `optional`."""

    sqs: Sqs
    other: Sqs
    engine: OptionEngine

    async def create(self, **attributes: str) -> str:
        return await self.sqs.queue(Engine="optional", **attributes)

    async def set(self, url: str, **attributes: str) -> None:
        await self.sqs("SetQueueAttributes", QueueUrl=url, Attributes=attributes)


@pytest.fixture
async def choice(sqs: Sqs, tmp_path: Path) -> AsyncIterator[Choice]:
    async with open_beside(sqs, tmp_path, optional=OptionEngine) as (one, (engine,)):
        assert isinstance(engine, OptionEngine)
        yield Choice(one, another_process(sqs, one.service.move_tasks.store, optional=engine), engine)


async def test_options_are_shown_and_reach_the_engine(choice: Choice) -> None:
    url = await choice.create(OrderHint="FEW", BucketSize="007")
    expected = {"Engine": "optional", "OrderHint": "few", "BucketSize": "7"}
    assert expected.items() <= (await choice.sqs.attributes(url)).items()
    assert await choice.sqs.attributes(url, *expected) == expected
    await choice.sqs.send(url)
    assert dict(choice.engine.seen) == {"OrderHint": "few", "BucketSize": "7"}
    await choice.sqs("DeleteQueue", QueueUrl=url)
    assert dict(choice.engine.dropped) == {"OrderHint": "few", "BucketSize": "7"}


async def test_defaults_are_shown(choice: Choice) -> None:
    url = await choice.create()
    expected = {"OrderHint": "auto", "BucketSize": "100"}
    assert await choice.sqs.attributes(url, *expected) == expected
    assert expected.items() <= (await choice.sqs.attributes(url)).items()


async def test_a_later_default_does_not_change_what_a_queue_was_made_with(
    choice: Choice, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await choice.create()
    later = {option.name: option._replace(default="500") for option in (HINT, SIZE)}
    monkeypatch.setattr(OptionEngine, "options", later)
    shown = await choice.sqs.attributes(url, "OrderHint", "BucketSize")
    assert shown == {"OrderHint": "500", "BucketSize": "100"}


async def test_options_of_another_engine_are_unknown(choice: Choice) -> None:
    refusal = ("InvalidAttributeName", "Unknown Attribute OrderHint.")
    assert await refused(choice.sqs.queue(Engine="embedded", OrderHint="few")) == refusal
    assert await refused(choice.sqs.queue(OrderHint="few")) == refusal
    url = await choice.sqs.queue("plain")
    assert await refused(choice.set(url, OrderHint="few")) == refusal
    assert await refused(choice.sqs.attributes(url, "OrderHint")) == refusal


async def test_a_wrong_value(choice: Choice) -> None:
    refusal = (
        "InvalidAttributeValue",
        "Invalid value for the parameter BucketSize. Reason: A number from 1 to 1000.",
    )
    for text in ("0", "1001", "many", "", "-1"):
        assert await refused(choice.create(BucketSize=text)) == refusal


async def test_a_live_option_is_changed_and_other_processes_see_it(choice: Choice) -> None:
    url = await choice.create()
    await choice.other.send(url)
    assert "OrderHint" not in dict(choice.engine.seen)
    await choice.set(url, OrderHint="Many", VisibilityTimeout="3")
    await choice.other.send(url)
    assert dict(choice.engine.seen) == {"OrderHint": "many", "BucketSize": "100"}
    shown = await choice.other.attributes(url, "OrderHint", "VisibilityTimeout")
    assert shown == {"OrderHint": "many", "VisibilityTimeout": "3"}


async def test_a_fixed_option_stays(choice: Choice) -> None:
    url = await choice.create(BucketSize="7")
    assert await refused(choice.set(url, BucketSize="8", OrderHint="many")) == ("InvalidAttributeValue", FIXED)
    assert await refused(choice.set(url, Engine="embedded")) == ("InvalidAttributeValue", KEPT)
    assert await choice.sqs.attributes(url, "OrderHint") == {"OrderHint": "auto"}
    await choice.set(url, BucketSize="07", Engine="optional")
    assert await choice.sqs.attributes(url, "BucketSize") == {"BucketSize": "7"}


async def test_create_again_compares_options(choice: Choice) -> None:
    url = await choice.create(BucketSize="7")
    assert await choice.create() == await choice.create(BucketSize="7", OrderHint="AUTO") == url
    assert await choice.sqs.queue(BucketSize="7") == url
    await choice.set(url, OrderHint="many")
    for given in ({"BucketSize": "8"}, {"OrderHint": "auto"}):
        (name,) = given
        assert await refused(choice.create(**given)) == (
            "QueueNameExists",
            f"A queue already exists with the same name and a different value for attribute {name}",
        )
    assert (await refused(choice.sqs.queue(Engine="embedded", BucketSize="7")))[0] == "QueueNameExists"


async def test_an_engine_that_does_not_run(choice: Choice) -> None:
    assert await refused(choice.sqs.queue("other", Engine="absent")) == (
        "InvalidAttributeValue",
        "Invalid value for the parameter Engine. Reason: This service runs the engines embedded and optional.",
    )
