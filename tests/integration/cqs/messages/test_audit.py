"""Queues with `Audit=on`: which events each operation writes, and when."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.events.audit_events import (
    AuditEvent,
    MessageDeleted,
    MessageEnded,
    MessageReceived,
    MessageSent,
    QueueAudited,
)
from cqs.messages.expired import ExpiredMessages
from cqs.redrive.tasks import MoveTaskList
from tests.integration.cqs.sqs import ACCOUNT, Sqs, refused
from tests.integration.cqs.sqs_wire import Wire

BODY = "h\u00e9llo"
CRC = f"{zlib.crc32(BODY.encode()):08x}"
FIFO = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}


def taken(sqs: Sqs) -> list[AuditEvent]:
    """The events since the last call."""
    events, sqs.audit.events = sqs.audit.events, []
    return events


async def audited(sqs: Sqs, name: str = "q", **attributes: str) -> tuple[str, str]:
    """(URL, ARN)"""
    url = await sqs.queue(name, Audit="on", **attributes)
    taken(sqs)
    return url, await sqs.arn(url)


# -- the attribute ----------------------------------------------------------------------------------------------------


async def test_the_attribute(wire: Wire, sqs: Sqs) -> None:
    url = (await wire("CreateQueue", QueueName="q", Attributes={"Audit": "on"}))["QueueUrl"]
    await wire("CreateQueue", QueueName="q", Attributes={"Audit": "on"})
    shown = await wire("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
    assert shown["Attributes"]["Audit"] == "on"
    await wire("SetQueueAttributes", QueueUrl=url, Attributes={"Audit": "off"})
    assert "Audit" not in await sqs.attributes(url)
    shown = await wire("GetQueueAttributes", QueueUrl=url, AttributeNames=["Audit"])
    assert shown["Attributes"] == {"Audit": "off"}
    await wire("CreateQueue", QueueName="q", Attributes={"Audit": "off"})


@pytest.mark.parametrize("value", ["", "true", "ON", "no"])
async def test_other_values_are_refused(sqs: Sqs, value: str) -> None:
    expected = ("InvalidAttributeValue", "Invalid value for the parameter Audit.")
    assert await refused(sqs.queue("q", Audit=value)) == expected
    url = await sqs.queue("q")
    assert await refused(sqs("SetQueueAttributes", QueueUrl=url, Attributes={"Audit": value})) == expected


async def test_when_the_audit_begins_and_ends_is_written(sqs: Sqs) -> None:
    url = await sqs.queue("q")
    arn = await sqs.arn(url)
    assert taken(sqs) == []
    for value in ("on", "on", "off", "off"):
        await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"Audit": value})
    on, off = taken(sqs)
    assert isinstance(on, QueueAudited)
    assert (on.queue, on.audit, on.complete_from_ms) == (arn, "on", on.at_ms + 60_000)
    assert isinstance(off, QueueAudited)
    assert (off.queue, off.audit) == (arn, "off")
    await sqs.queue("new", Audit="on")
    (created,) = taken(sqs)
    assert isinstance(created, QueueAudited)
    assert created.complete_from_ms == created.at_ms


async def test_the_end_of_an_audit_is_written_by_a_process_that_did_not_see_it_begin(sqs: Sqs) -> None:
    """Else what is received and deleted from then on, without events, would count as lost."""
    url = await sqs.queue("q")
    before = await sqs.service.cache.find((ACCOUNT, "us-east-1", "q"))
    assert before is not None
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"Audit": "on"})
    await sqs.service.queues.set_attributes(before, {"Audit": "off"})
    assert "Audit" not in await sqs.attributes(url)
    events = taken(sqs)
    assert [event.audit for event in events if isinstance(event, QueueAudited)] == ["on", "off"]


async def test_without_the_attribute_nothing_is_written(sqs: Sqs) -> None:
    sqs.audit.refuses = sqs.audit.fails = True
    url = await sqs.queue("q")
    await sqs.send(url)
    (message,) = await sqs.receive(url)
    await sqs.delete(url, message)
    await sqs("PurgeQueue", QueueUrl=url)
    await sqs("DeleteQueue", QueueUrl=url)
    assert sqs.audit.events == []


# -- messages ---------------------------------------------------------------------------------------------------------


async def test_the_life_of_a_message(sqs: Sqs) -> None:
    url, arn = await audited(sqs, VisibilityTimeout="1")
    message_id = (await sqs.send(url, BODY, MessageGroupId="tenant"))["MessageId"]
    (sent,) = taken(sqs)
    now_ms = sqs.clock.now_ms()
    assert isinstance(sent, MessageSent)
    assert 0 <= now_ms - sent.at_ms < 60_000
    named: dict[str, Any] = {"queue": arn, "message_id": message_id, "group": "tenant"}
    assert sent == MessageSent(at_ms=sent.at_ms, size_bytes=6, checksum=CRC, **named)
    for count in (1, 2):
        (message,) = await sqs.receive(url)
        (received,) = taken(sqs)
        assert received == MessageReceived(at_ms=received.at_ms, receive_count=count, checksum=CRC, **named)
        sqs.advance(1.1)
    await sqs.delete(url, message)
    (deleted,) = taken(sqs)
    assert deleted == MessageDeleted(at_ms=deleted.at_ms, **named)
    await sqs.delete(url, message)  # the message does not exist any more
    assert taken(sqs) == []


async def test_a_long_poll_writes_what_it_returns(sqs: Sqs) -> None:
    url, _ = await audited(sqs)
    poll = await sqs.poll(url)
    message_id = (await sqs.send(url))["MessageId"]
    assert [message["MessageId"] for message in await poll] == [message_id]
    kinds = {type(event): event for event in taken(sqs)}
    assert kinds.keys() == {MessageSent, MessageReceived}


async def test_batches_are_written_in_their_order(sqs: Sqs) -> None:
    url, _ = await audited(sqs, "q.fifo")
    entries = [
        {"Id": str(n), "MessageBody": str(n), "MessageGroupId": "g", "MessageDeduplicationId": str(n)} for n in range(9)
    ]
    entries.insert(4, {**entries[0], "Id": "bad", "MessageBody": "\x00"})
    answer = await sqs("SendMessageBatch", QueueUrl=url, Entries=entries)
    sent = [event for event in taken(sqs) if isinstance(event, MessageSent)]
    assert [event.message_id for event in sent] == [one["MessageId"] for one in answer["Successful"]]
    assert [event.sequence_number for event in sent] == [one["SequenceNumber"] for one in answer["Successful"]]
    messages = await sqs.receive(url)
    received = [event for event in taken(sqs) if isinstance(event, MessageReceived)]
    assert [event.message_id for event in received] == [message["MessageId"] for message in messages]
    handles = [{"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(messages)]
    handles[1]["ReceiptHandle"] = "no handle"
    await sqs("DeleteMessageBatch", QueueUrl=url, Entries=handles)
    deleted = [event for event in taken(sqs) if isinstance(event, MessageDeleted)]
    assert [event.message_id for event in deleted] == [event.message_id for event in (received[0], *received[2:])]


async def test_a_repeated_fifo_send_is_marked(sqs: Sqs) -> None:
    """Its checksum would be of another body."""
    url, _ = await audited(sqs, "q.fifo")
    for body in ("one", "another"):
        await sqs.send(url, body, **FIFO)
    first, second = taken(sqs)
    assert isinstance(first, MessageSent)
    assert isinstance(second, MessageSent)
    assert (second.message_id, second.sequence_number) == (first.message_id, first.sequence_number)
    assert (first.duplicate, second.duplicate, second.checksum) == (False, True, "")


async def test_receipts_from_before_the_audit_delete_without_an_event(sqs: Sqs) -> None:
    url = await sqs.queue("q")
    await sqs.send(url)
    await sqs.send(url)
    first, second = await sqs.receive(url)
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"Audit": "on"})
    taken(sqs)
    await sqs.delete(url, first)
    await sqs.hide(url, second, 0)
    (again,) = await sqs.receive(url)
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"Audit": "off"})
    taken(sqs)
    await sqs.delete(url, again)
    assert (taken(sqs), await sqs.counts(url)) == ([], (0, 0, 0))


# -- why a message is gone --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".fifo"])
async def test_a_dead_letter_and_its_return(sqs: Sqs, suffix: str) -> None:
    _, dead_arn = await audited(sqs, "dead" + suffix)
    policy = f'{{"deadLetterTargetArn":"{dead_arn}","maxReceiveCount":1}}'
    source, source_arn = await audited(sqs, "source" + suffix, RedrivePolicy=policy, VisibilityTimeout="1")
    message_id = (await sqs.send(source, BODY, **FIFO if suffix else {}))["MessageId"]
    await sqs.receive(source)
    sqs.advance(1.1)
    taken(sqs)
    assert await sqs.receive(source) == []
    ended, arrived = taken(sqs)
    assert isinstance(ended, MessageEnded)
    assert (ended.queue, ended.message_id, ended.cause) == (source_arn, message_id, "dead_lettered")
    assert isinstance(arrived, MessageSent)
    assert (arrived.queue, arrived.message_id, arrived.checksum) == (dead_arn, message_id, CRC)

    await sqs("StartMessageMoveTask", SourceArn=dead_arn)
    tasks: MoveTaskList = sqs.service.move_tasks
    (task,) = await tasks.store.active()
    assert (await sqs.service.mover.step(task, 10)).taken == 1
    moved, back = taken(sqs)
    assert isinstance(moved, MessageEnded)
    assert (moved.queue, moved.message_id, moved.cause) == (dead_arn, message_id, "moved")
    assert isinstance(back, MessageSent)
    assert (back.queue, back.checksum) == (source_arn, CRC)


@pytest.mark.parametrize(("action", "cause"), [("PurgeQueue", "purged"), ("DeleteQueue", "queue_deleted")])
async def test_a_queue_that_is_emptied_says_so_before_and_after(sqs: Sqs, action: str, cause: str) -> None:
    url, arn = await audited(sqs)
    await sqs.send(url)
    taken(sqs)
    await sqs(action, QueueUrl=url)
    before, after = taken(sqs)
    assert isinstance(before, MessageEnded)
    assert isinstance(after, MessageEnded)
    assert before.at_ms <= after.at_ms
    for event in (before, after):
        assert event == MessageEnded(at_ms=event.at_ms, queue=arn, cause=event.cause)
        assert event.cause == cause


async def test_an_expired_message_ends(sqs: Sqs) -> None:
    url, arn = await audited(sqs, MessageRetentionPeriod="60")
    message_id = (await sqs.send(url, MessageGroupId="tenant"))["MessageId"]
    sqs.advance(60)
    assert await sqs.receive(url) == []
    assert await sqs.counts(url) == (
        0,
        0,
        0,
    )  # waits for the commit of the receive, whose empty answer came before it
    taken(sqs)
    expired = ExpiredMessages((sqs.engine,), sqs.audit)
    sqs.audit.refuses = True
    assert await expired.sweep(sqs.clock.now_ms(), 100) == 0
    sqs.audit.refuses, sqs.audit.fails = False, True
    with pytest.raises(OutcomeUnknown):
        await expired.sweep(sqs.clock.now_ms(), 100)
    sqs.audit.fails = False
    assert [await expired.sweep(sqs.clock.now_ms(), 100) for _ in range(2)] == [1, 0]
    (ended,) = taken(sqs)
    assert ended == MessageEnded(at_ms=ended.at_ms, queue=arn, message_id=message_id, group="tenant", cause="expired")


# -- a disk that refuses ----------------------------------------------------------------------------------------------


async def test_while_events_cannot_be_written_calls_change_nothing(sqs: Sqs) -> None:
    url, _ = await audited(sqs)
    other = await sqs.queue("other")
    await sqs.send(url)
    (message,) = await sqs.receive(url)
    before = await sqs.counts(url)
    sqs.audit.refuses = True
    for call in (
        sqs.send(url),
        sqs.receive(url, WaitTimeSeconds=20),
        sqs.delete(url, message),
        sqs("PurgeQueue", QueueUrl=url),
        sqs("DeleteQueue", QueueUrl=url),
        sqs("SetQueueAttributes", QueueUrl=other, Attributes={"Audit": "on"}),
    ):
        with pytest.raises(StoreUnavailable):
            await call
    assert await sqs.counts(url) == before
    assert "Audit" not in await sqs.attributes(other)


async def test_a_dead_letter_queue_that_refuses_costs_its_source_no_receive(sqs: Sqs) -> None:
    """Else messages next to a spent one are leased by calls that fail, until they are spent without a delivery."""
    _, dead_arn = await audited(sqs, "dead")
    policy = f'{{"deadLetterTargetArn":"{dead_arn}","maxReceiveCount":1}}'
    url = await sqs.queue("source", RedrivePolicy=policy, VisibilityTimeout="1")
    await sqs.send(url)
    await sqs.receive(url)
    sqs.advance(1.1)
    delivered = (await sqs.send(url))["MessageId"]
    sqs.audit.refuses = True
    with pytest.raises(StoreUnavailable):
        await sqs.receive(url)
    sqs.advance(1.1)
    sqs.audit.refuses = False
    assert [message["MessageId"] for message in await sqs.receive(url)] == [delivered]


async def test_why_a_message_goes_is_written_before_it_goes(sqs: Sqs) -> None:
    """Events of receives are written after the lease, so that no event names a receive that never happened."""
    dead, dead_arn = await audited(sqs, "dead")
    policy = f'{{"deadLetterTargetArn":"{dead_arn}","maxReceiveCount":1}}'
    url, _ = await audited(sqs, "source", RedrivePolicy=policy)
    sqs.audit.fails = True
    with pytest.raises(OutcomeUnknown):
        await sqs.send(url)
    assert await sqs.counts(url) == (1, 0, 0)
    with pytest.raises(OutcomeUnknown):
        await sqs.receive(url)
    assert await sqs.counts(url) == (0, 1, 0)
    sqs.advance(31)
    with pytest.raises(OutcomeUnknown):
        await sqs.receive(url)  # a receive would move the spent message
    assert await sqs.counts(dead) == (0, 0, 0)
    with pytest.raises(OutcomeUnknown):
        await sqs("PurgeQueue", QueueUrl=url)
    assert sum(await sqs.counts(url)) == 1
