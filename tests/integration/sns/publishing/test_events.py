"""What publishing tells the event sink: one fact for each message that was accepted, and none for others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from cns.limits import Quotas
from cns.queue_port.contract import NewJob
from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown
from cns_common.events.schema import PublishAccepted
from tests.integration.sns.cns_support import ACCOUNT, Rig, open_rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, Clock(), Quotas()) as rig:
        yield rig


def told(rig: Rig) -> list[PublishAccepted]:
    events = rig.events.events
    assert all(isinstance(event, PublishAccepted) for event in events)
    return [event for event in events if isinstance(event, PublishAccepted)]


async def test_an_accepted_message_is_told_of(rig: Rig) -> None:
    topic = await rig.topic()
    await rig.queue_subscription(topic)
    before_ms = rig.clock.now_ms()
    attributes = {"a": {"DataType": "String", "StringValue": "vv"}}
    result = await rig("Publish", TopicArn=topic, Message="né", Subject="s", MessageAttributes=attributes)
    (event,) = told(rig)
    assert before_ms <= event.at_ms <= rig.clock.now_ms()
    assert event == PublishAccepted(
        at_ms=event.at_ms,
        message_id=result["MessageId"],
        topic=topic,
        account=ACCOUNT,
        size_bytes=len("né".encode()) + len("aStringvv"),
        has_subject=True,
        jobs=1,
    )


async def test_a_message_for_nobody_has_no_job(rig: Rig) -> None:
    await rig("Publish", TopicArn=await rig.topic(), Message="m")
    (event,) = told(rig)
    assert (event.jobs, event.has_subject) == (0, False)


async def test_the_entries_of_a_batch_that_were_accepted(rig: Rig) -> None:
    topic = await rig.topic()
    entries = [{"Id": "1", "Message": "m"}, {"Id": "2", "Message": ""}, {"Id": "3", "Message": "m"}]
    result = await rig("PublishBatch", TopicArn=topic, PublishBatchRequestEntries=entries)
    assert [event.message_id for event in told(rig)] == [entry["MessageId"] for entry in result["Successful"]]


async def test_what_is_refused_or_not_known_to_be_durable_is_not_told_of(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await rig.topic()
    await rig.queue_subscription(topic)
    await rig.refusal("Publish", TopicArn=topic, Message="")

    async def lost(_puts: Sequence[NewJob]) -> None:
        raise OutcomeUnknown("the store went away")

    monkeypatch.setattr(rig.queue, "enqueue", lost)
    with pytest.raises(OutcomeUnknown):
        await rig("Publish", TopicArn=topic, Message="m")
    assert told(rig) == []
