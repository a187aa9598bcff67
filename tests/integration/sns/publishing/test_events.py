"""Events of publishing: one for each accepted message, and none for others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cns.queue_port.contract import NewJob
from cns_common.errors import OutcomeUnknown
from cns_common.events.schema import PublishAccepted
from tests.integration.sns.cns_support import ACCOUNT, Rig


def publish_events(rig: Rig) -> list[PublishAccepted]:
    events = rig.events.events
    assert all(isinstance(event, PublishAccepted) for event in events)
    return [event for event in events if isinstance(event, PublishAccepted)]


async def test_an_accepted_message_has_an_event(rig: Rig) -> None:
    topic = await rig.topic()
    await rig.queue_subscription(topic)
    before_ms = rig.clock.now_ms()
    attributes = {"a": {"DataType": "String", "StringValue": "vv"}}
    result = await rig("Publish", TopicArn=topic, Message="né", Subject="s", MessageAttributes=attributes)
    (event,) = publish_events(rig)
    assert before_ms <= event.at_ms <= rig.clock.now_ms()
    assert event == PublishAccepted(
        at_ms=event.at_ms,
        message_id=result["MessageId"],
        topic=topic,
        account=ACCOUNT,
        size_bytes=len("né".encode()) + len("aStringvv"),
        has_subject=True,
        jobs=1,
        matched=1,
    )


async def test_a_message_without_confirmed_subscriptions_has_no_job(rig: Rig) -> None:
    topic = await rig.topic()
    await rig.pending(topic)
    await rig("Publish", TopicArn=topic, Message="m")
    (event,) = publish_events(rig)
    assert (event.jobs, event.has_subject) == (0, False)
    assert (rig.queue.take(), rig.service.dispatcher.outcomes) == ([], {"unmatched": 1})


async def test_accepted_entries_of_a_batch_have_events(rig: Rig) -> None:
    topic = await rig.topic()
    entries = [{"Id": "1", "Message": "m"}, {"Id": "2", "Message": ""}, {"Id": "3", "Message": "m"}]
    result = await rig("PublishBatch", TopicArn=topic, PublishBatchRequestEntries=entries)
    assert [event.message_id for event in publish_events(rig)] == [entry["MessageId"] for entry in result["Successful"]]


async def test_refused_and_unknown_outcomes_have_no_event(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await rig.topic()
    await rig.queue_subscription(topic)
    await rig.refusal("Publish", TopicArn=topic, Message="")

    async def lose_answer(_puts: Sequence[NewJob]) -> None:
        raise OutcomeUnknown("the store went away")

    monkeypatch.setattr(rig.queue, "enqueue", lose_answer)
    with pytest.raises(OutcomeUnknown):
        await rig("Publish", TopicArn=topic, Message="m")
    assert publish_events(rig) == []
