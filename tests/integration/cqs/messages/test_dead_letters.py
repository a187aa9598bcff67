"""Dead-letter queues: when messages are moved, and what a moved message keeps."""

from __future__ import annotations

from typing import Any

import pytest

from cns_common.errors import OutcomeUnknown, StoreFull
from cqs.messages.dead_letters import DeadLetters
from tests.integration.cqs.sqs import Sqs

FIFO_IDS = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}


async def redrive(sqs: Sqs, source: str = "source", target: str = "dead", receives: int = 1) -> tuple[str, str]:
    """(source, dead-letter queue)"""
    dead = await sqs.queue(target)
    policy = f'{{"deadLetterTargetArn":"{await sqs.arn(dead)}","maxReceiveCount":{receives}}}'
    return await sqs.queue(source, RedrivePolicy=policy, VisibilityTimeout="1"), dead


async def spend(sqs: Sqs, url: str, receives: int) -> None:
    for _ in range(receives):
        assert await sqs.receive(url)
        sqs.advance(1.1)


@pytest.mark.spec("dead-letters.count", "dead-letters.after-the-last")
@pytest.mark.parametrize("suffix", ["", ".fifo"])
@pytest.mark.parametrize("receives", [1, 3])
async def test_the_count_goes_on(sqs: Sqs, suffix: str, receives: int) -> None:
    source, dead = await redrive(sqs, "source" + suffix, "dead" + suffix, receives)
    await sqs.send(source, "poison", **FIFO_IDS if suffix else {})
    await spend(sqs, source, receives)
    assert await sqs.receive(source) == []
    (message,) = await sqs.receive(dead, AttributeNames=["ApproximateReceiveCount"])
    assert message["Attributes"] == {"ApproximateReceiveCount": str(receives + 1)}


ATTRIBUTES = {"color": {"DataType": "String", "StringValue": "blue"}}


@pytest.mark.spec(
    "dead-letters.after-the-last",
    "dead-letters.not-in-the-background",
    "dead-letters.preserved",
    "dead-letters.first-receive",
    "dead-letters.source",
)
async def test_moved_by_the_receive_after_the_last(sqs: Sqs) -> None:
    source, dead = await redrive(sqs, receives=2)
    sent = await sqs.send(source, "poison", MessageAttributes=ATTRIBUTES, MessageGroupId="tenant", trace_header="t")
    (before,) = await sqs.receive(source, VisibilityTimeout=0, AttributeNames=["All"])
    await spend(sqs, source, 1)
    sqs.advance(60)
    assert await sqs.counts(dead) == (0, 0, 0)  # messages are moved only by a receive
    assert await sqs.receive(source) == []
    assert await sqs.counts(source) == (0, 0, 0)
    (message,) = await sqs.receive(dead, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert message["MessageId"] == sent["MessageId"]
    assert message["Body"] == "poison"
    assert message["MessageAttributes"] == ATTRIBUTES
    assert message["Attributes"] == before["Attributes"] | {
        "ApproximateReceiveCount": "3",
        "DeadLetterQueueSourceArn": await sqs.arn(source),
    }


@pytest.mark.spec("dead-letters.receive-goes-on")
async def test_receive_goes_on_to_the_next_message(sqs: Sqs) -> None:
    source, dead = await redrive(sqs)
    for n in range(25):
        await sqs.send(source, f"poison {n}")
    for _ in range(3):
        await sqs.receive(source)
    sqs.advance(1.1)
    await sqs.send(source, "good")
    assert await sqs.bodies(source, 2) == ["good"]
    assert await sqs.counts(dead) == (25, 0, 0)


async def test_a_receive_that_moves_gives_nothing_twice(sqs: Sqs) -> None:
    source, dead = await redrive(sqs)
    await sqs.send(source, "poison")
    assert await sqs.bodies(source, VisibilityTimeout=0) == ["poison"]
    await sqs.send(source, "good")
    assert await sqs.bodies(source, VisibilityTimeout=0) == ["good"]
    assert await sqs.bodies(dead) == ["poison"]


@pytest.mark.spec(
    "fifo.unlocked-by-move",
    "dead-letters.fifo-group",
    "dead-letters.fifo-dedup-id",
    "dead-letters.fifo-sequence",
    "dead-letters.first-receive",
)
async def test_fifo(sqs: Sqs) -> None:
    source, dead = await redrive(sqs, "source.fifo", "dead.fifo")
    sent = await sqs.send(source, "head", MessageGroupId="g", MessageDeduplicationId="d")
    (before,) = await sqs.receive(source, VisibilityTimeout=0, AttributeNames=["All"])
    await sqs.send(source, "next", MessageGroupId="g", MessageDeduplicationId="e")
    assert await sqs.bodies(source, 1) == ["next"]  # moving the head unlocked its group
    sqs.advance(86_400)
    assert await sqs.send(dead, MessageGroupId="x", MessageDeduplicationId=sent["MessageId"])
    (message, *_) = await sqs.receive(dead, AttributeNames=["All"])
    kept = {"MessageGroupId", "SentTimestamp", "ApproximateFirstReceiveTimestamp", "SenderId"}
    assert {name: message["Attributes"][name] for name in kept} == {name: before["Attributes"][name] for name in kept}
    assert message["Attributes"]["MessageDeduplicationId"] == message["MessageId"] == sent["MessageId"]
    assert message["Attributes"]["SequenceNumber"] != sent["SequenceNumber"]


@pytest.mark.spec("dead-letters.fifo-order", "fifo.unlocked-by-move")
async def test_a_fifo_group_is_moved_in_its_order(sqs: Sqs) -> None:
    source, dead = await redrive(sqs, "source.fifo", "dead.fifo")
    for number in range(5):
        await sqs.send(source, str(number), MessageGroupId="g", MessageDeduplicationId=str(number))
        await sqs.send(source, f"other {number}", MessageGroupId="h", MessageDeduplicationId=f"other-{number}")
    assert len(await sqs.receive(source)) == 10
    sqs.advance(1.1)
    assert await sqs.receive(source) == []
    received = await sqs.bodies(dead)
    assert [body for body in received if "other" not in body] == ["0", "1", "2", "3", "4"]
    assert [body for body in received if "other" in body] == [f"other {number}" for number in range(5)]


@pytest.mark.spec("dead-letters.fifo-dedup")
async def test_fifo_move_is_known_to_deduplication(sqs: Sqs) -> None:
    source, dead = await redrive(sqs, "source.fifo", "dead.fifo")
    sent = await sqs.send(source, "head", MessageGroupId="g", MessageDeduplicationId="d")
    await spend(sqs, source, 1)
    assert await sqs.receive(source) == []
    again = await sqs.send(dead, "again", MessageGroupId="x", MessageDeduplicationId=sent["MessageId"])
    assert again["MessageId"] == sent["MessageId"]
    assert await sqs.bodies(dead) == ["head"]


@pytest.mark.spec("dead-letters.retention-standard", "dead-letters.retention-fifo")
@pytest.mark.parametrize(("suffix", "left"), [("", []), (".fifo", ["poison"])])
async def test_retention_after_the_move(sqs: Sqs, suffix: str, left: list[str]) -> None:
    """In standard queues retention counts from the first send, in FIFO queues from the move."""
    source, dead = await redrive(sqs, "source" + suffix, "dead" + suffix)
    await sqs("SetQueueAttributes", QueueUrl=dead, Attributes={"MessageRetentionPeriod": "3600"})
    await sqs.send(source, "poison", **FIFO_IDS if suffix else {})
    sqs.advance(3_000)
    await spend(sqs, source, 1)
    assert await sqs.receive(source) == []
    sqs.advance(1_000)
    assert await sqs.bodies(dead) == left


@pytest.mark.spec("dead-letters.queue-gone")
async def test_without_its_dead_letter_queue_a_queue_keeps_its_messages(sqs: Sqs) -> None:
    source, dead = await redrive(sqs)
    await sqs.send(source, "poison")
    await spend(sqs, source, 1)
    await sqs("DeleteQueue", QueueUrl=dead)
    await spend(sqs, source, 3)
    sqs.advance(60)
    assert await sqs.queue("dead") == dead
    assert await sqs.receive(source) == []
    assert await sqs.bodies(dead) == ["poison"]


@pytest.mark.spec("redrive.itself")
async def test_its_own_dead_letter_queue(sqs: Sqs) -> None:
    url = await sqs.queue(VisibilityTimeout="1")
    policy = f'{{"deadLetterTargetArn":"{await sqs.arn(url)}","maxReceiveCount":1}}'
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"RedrivePolicy": policy})
    await sqs.send(url)
    await spend(sqs, url, 5)


async def test_with_a_receive_attempt(sqs: Sqs) -> None:
    source, dead = await redrive(sqs, "source.fifo", "dead.fifo")
    await sqs.send(source, "poison", MessageGroupId="a", MessageDeduplicationId="1")
    await spend(sqs, source, 1)
    await sqs.send(source, "good", MessageGroupId="b", MessageDeduplicationId="2")
    first = await sqs.receive(source, ReceiveRequestAttemptId="attempt")
    again = await sqs.receive(source, ReceiveRequestAttemptId="attempt")
    assert [message["Body"] for message in first] == [message["Body"] for message in again] == ["good"]
    assert await sqs.bodies(dead) == ["poison"]


@pytest.mark.parametrize("suffix", ["", ".fifo"])
async def test_messages_behind_a_slow_move_have_their_full_timeout(
    sqs: Sqs, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, dead = await redrive(sqs, "source" + suffix, "dead" + suffix)
    await sqs.send(source, "poison", **FIFO_IDS if suffix else {})
    await spend(sqs, source, 1)
    await sqs.send(source, "good", **{"MessageGroupId": "b", "MessageDeduplicationId": "e"} if suffix else {})
    move = DeadLetters.move

    async def move_slowly(*words: Any) -> None:
        await move(*words)
        sqs.advance(5)

    monkeypatch.setattr(DeadLetters, "move", move_slowly)
    (good,) = await sqs.receive(source, 1, VisibilityTimeout=10)
    assert good["Body"] == "good"
    sqs.advance(9)
    assert await sqs.counts(source) == (0, 1, 0)
    sqs.advance(1.1)
    assert await sqs.counts(source) == (1, 0, 0)
    assert await sqs.bodies(dead) == ["poison"]


@pytest.mark.parametrize("suffix", ["", ".fifo"])
@pytest.mark.parametrize("error", [StoreFull("the disk is full"), OutcomeUnknown("the call takes too long")])
async def test_what_is_received_beside_a_move_that_fails_is_given_out(
    sqs: Sqs, suffix: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk nothing is moved. The other messages are leased: without an answer each would lose a receive."""

    async def fail(*_: object) -> None:
        raise error

    source, dead = await redrive(sqs, "source" + suffix, "dead" + suffix)
    await sqs.send(source, "poison", **FIFO_IDS if suffix else {})
    await spend(sqs, source, 1)
    for n in range(3):
        ids = {"MessageGroupId": f"g{n}", "MessageDeduplicationId": f"d{n}"} if suffix else {}
        await sqs.send(source, f"good {n}", **ids)
    with monkeypatch.context() as patched:
        patched.setattr(sqs.engine, "settle", fail)
        assert await sqs.bodies(source) == ["good 0", "good 1", "good 2"]
        with pytest.raises(type(error)):
            sqs.advance(31)
            await sqs.bodies(source, n=1)
    sqs.advance(31)
    await sqs.bodies(source)
    assert "poison" in await sqs.bodies(dead)
