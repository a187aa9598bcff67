"""Message move tasks: the moved messages, the task's record, and what a dead worker left."""

from __future__ import annotations

import asyncio

import pytest

from cns_workers.background.move_tasks import POLL_INTERVAL_S, pace
from cqs.queues.urls import key_of_arn
from cqs.redrive.mover import MOVE_LEASE_MS
from tests.integration.cqs.queues.move_task_fixture import MoveTaskFixture, move_site
from tests.integration.cqs.sqs import Sqs, refused


@pytest.fixture
async def fixture(sqs: Sqs) -> MoveTaskFixture:
    return await move_site(sqs)


@pytest.mark.spec("moves.back-to-source", "moves.new-identity", "moves.list-fields", "moves.to-move")
async def test_messages_go_back_to_the_queue_they_came_from_as_new_ones(fixture: MoveTaskFixture) -> None:
    await fixture.die("a", "b")
    (before,) = await fixture.sqs.receive(fixture.dead, 1, VisibilityTimeout=0, AttributeNames=["All"])
    began_ms = fixture.sqs.clock.now_ms()
    handle = await fixture.start()
    (task,) = await fixture.listed()
    assert began_ms <= task.pop("StartedTimestamp") <= fixture.sqs.clock.now_ms()
    assert task == {
        "Status": "RUNNING",
        "SourceArn": await fixture.sqs.arn(fixture.dead),
        "ApproximateNumberOfMessagesMoved": 0,
        "ApproximateNumberOfMessagesToMove": 2,
        "TaskHandle": handle,
    }
    fixture.sqs.advance(1)
    task = await fixture.end()
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 2)
    assert "TaskHandle" not in task
    messages = await fixture.sqs.receive(fixture.source, AttributeNames=["All"])
    assert sorted(message["Body"] for message in messages) == ["a", "b"]
    for message in messages:
        assert message["MessageId"] != before["MessageId"]
        assert message["Attributes"]["ApproximateReceiveCount"] == "1"
        assert message["Attributes"]["SentTimestamp"] > before["Attributes"]["SentTimestamp"]
        first = "ApproximateFirstReceiveTimestamp"
        assert message["Attributes"][first] > before["Attributes"][first]
        assert "DeadLetterQueueSourceArn" not in message["Attributes"]
    assert await fixture.sqs.counts(fixture.dead) == (0, 0, 0)


@pytest.mark.spec("moves.to-destination")
async def test_messages_go_where_the_task_says(fixture: MoveTaskFixture) -> None:
    arn = await fixture.sqs.arn(fixture.other)
    await fixture.die("a")
    await fixture.sqs.send(
        fixture.dead,
        "sent there",
        MessageAttributes={"n": {"DataType": "Number", "StringValue": "7"}},
        MessageGroupId="g",
    )
    await fixture.start(DestinationArn=arn, MaxNumberOfMessagesPerSecond=500)
    (task,) = await fixture.listed()
    assert (task["DestinationArn"], task["MaxNumberOfMessagesPerSecond"]) == (arn, 500)
    assert (await fixture.end())["ApproximateNumberOfMessagesMoved"] == 2
    messages = await fixture.sqs.receive(
        fixture.other, MessageAttributeNames=["All"], AttributeNames=["MessageGroupId"]
    )
    found = {message["Body"]: message for message in messages}
    assert found.keys() == {"a", "sent there"}
    assert found["sent there"]["MessageAttributes"]["n"]["StringValue"] == "7"
    assert found["sent there"]["Attributes"]["MessageGroupId"] == "g"


@pytest.mark.spec("moves.no-known-source")
async def test_a_message_of_no_known_source_fails_the_task_and_stays(fixture: MoveTaskFixture) -> None:
    await fixture.sqs.send(fixture.dead, "sent there")
    await fixture.start()
    task = await fixture.end()
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    assert await fixture.sqs.bodies(fixture.dead) == ["sent there"]


@pytest.mark.spec("moves.source-gone")
@pytest.mark.parametrize("gone", ["source", "dead"])
async def test_a_queue_that_is_gone_fails_the_task(fixture: MoveTaskFixture, gone: str) -> None:
    await fixture.die("a")
    await fixture.start()
    (task,) = await fixture.tasks.newest(await fixture.sqs.arn(fixture.dead), 1)
    await fixture.sqs("DeleteQueue", QueueUrl=getattr(fixture, gone))
    ended = (await fixture.mover.step(task, 10)).task
    assert (ended.status, ended.failure) == ("FAILED", "AWS.SimpleQueueService.NonExistentQueue")
    if gone == "source":
        assert await fixture.sqs.bodies(fixture.dead) == ["a"]


@pytest.mark.spec("moves.newest-first")
async def test_the_last_ten_are_listed_newest_first(fixture: MoveTaskFixture) -> None:
    for rate in range(1, 13):
        await fixture.start(MaxNumberOfMessagesPerSecond=rate)
        assert (await fixture.end())["Status"] == "COMPLETED"
        fixture.sqs.advance(1)
    assert [task["MaxNumberOfMessagesPerSecond"] for task in await fixture.listed(MaxResults=10)] == list(
        range(12, 2, -1)
    )
    assert len(await fixture.listed()) == 1


@pytest.mark.spec("moves.cancel")
async def test_a_cancelled_task_moves_no_more(fixture: MoveTaskFixture) -> None:
    await fixture.die("a", "b", "c")
    handle = await fixture.start(MaxNumberOfMessagesPerSecond=1)
    (task,) = await fixture.tasks.newest(await fixture.sqs.arn(fixture.dead), 1)
    assert (await fixture.mover.step(task, 1)).taken == 1
    assert await fixture.sqs("CancelMessageMoveTask", TaskHandle=handle) == {"ApproximateNumberOfMessagesMoved": 1}
    assert (await fixture.listed())[0]["Status"] == "CANCELLING"
    assert (await refused(fixture.sqs("CancelMessageMoveTask", TaskHandle=handle)))[1] == "Task does not exist."
    task_shown = await fixture.end()
    assert (task_shown["Status"], task_shown["ApproximateNumberOfMessagesMoved"]) == ("CANCELLED", 1)
    assert (await fixture.sqs.counts(fixture.dead))[0] == 2


@pytest.mark.spec("moves.36-hours")
async def test_a_task_ends_after_36_hours(fixture: MoveTaskFixture) -> None:
    await fixture.start()
    (task,) = await fixture.tasks.newest(await fixture.sqs.arn(fixture.dead), 1)
    fixture.sqs.advance(36 * 3_600 + 1)
    ended = (await fixture.mover.step(task, 10)).task
    assert (ended.status, ended.failure) == ("FAILED", "TaskTimedOut")


@pytest.mark.spec("moves.resumed")
async def test_messages_of_a_dead_worker_are_moved_by_the_next(fixture: MoveTaskFixture) -> None:
    """A worker died with a batch: the next one must not complete the task before the lease ends."""
    await fixture.die("a", "b")
    await fixture.start()
    (task,) = await fixture.tasks.newest(await fixture.sqs.arn(fixture.dead), 1)
    await fixture.mover.begin(task)
    now_ms = fixture.sqs.clock.now_ms()
    key = key_of_arn(task.source_arn)
    assert key is not None
    view = await fixture.sqs.service.cache.find(key)
    assert view is not None
    assert len((await view.engine.receive(view.ref_without_redrive, 10, now_ms + MOVE_LEASE_MS, now_ms)).messages) == 2
    stepping = asyncio.create_task(fixture.runner.step())
    await asyncio.sleep(0.05)  # the step finds nothing: all messages are in flight
    assert (await fixture.listed())[0]["Status"] == "RUNNING"
    fixture.sqs.advance(MOVE_LEASE_MS / 1000 + 1)
    assert (await fixture.end())["ApproximateNumberOfMessagesMoved"] == 2
    stepping.cancel()


# -- FIFO -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("moves.fifo-order", "moves.fifo-dedup-id")
async def test_fifo_messages_keep_their_order_and_get_their_old_id_for_deduplication(sqs: Sqs) -> None:
    fixture = await move_site(sqs, ".fifo")
    await fixture.die("a", "b", "c", MessageGroupId="g")
    dead = await sqs.receive(fixture.dead, VisibilityTimeout=0)
    await fixture.start(DestinationArn=await sqs.arn(fixture.other))
    assert (await fixture.end())["ApproximateNumberOfMessagesMoved"] == 3
    moved = await sqs.receive(fixture.other, AttributeNames=["All"])
    assert [message["Body"] for message in moved] == ["a", "b", "c"]
    assert [message["Attributes"]["MessageDeduplicationId"] for message in moved] == [
        message["MessageId"] for message in dead
    ]


@pytest.mark.spec("moves.fifo-in-flight")
async def test_a_message_in_flight_blocks_its_group_and_no_other(sqs: Sqs) -> None:
    fixture = await move_site(sqs, ".fifo")
    await fixture.die("a1", "a2", MessageGroupId="a")
    await sqs.send(fixture.dead, "b1", MessageGroupId="b", MessageDeduplicationId="b1")
    assert await sqs.bodies(fixture.dead, 1) == ["a1"]
    await fixture.start(DestinationArn=await sqs.arn(fixture.other))
    assert (await fixture.end())["ApproximateNumberOfMessagesMoved"] == 1
    assert await sqs.bodies(fixture.other) == ["b1"]
    assert await sqs.counts(fixture.dead) == (1, 1, 0)


@pytest.mark.spec("moves.fifo-duplicate")
async def test_a_duplicate_at_the_destination_is_dropped_and_not_counted(sqs: Sqs) -> None:
    fixture = await move_site(sqs, ".fifo")
    await fixture.die("a", MessageGroupId="g")
    (dead,) = await sqs.receive(fixture.dead, VisibilityTimeout=0)
    await sqs.send(fixture.other, "here already", MessageGroupId="g", MessageDeduplicationId=dead["MessageId"])
    await fixture.start(DestinationArn=await sqs.arn(fixture.other))
    assert (await fixture.end())["ApproximateNumberOfMessagesMoved"] == 0
    assert await sqs.bodies(fixture.other) == ["here already"]
    assert await sqs.counts(fixture.dead) == (0, 0, 0)


# -- pace -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("moves.pace")
@pytest.mark.parametrize(
    ("per_second", "batch", "pause_s"), [(0, 10, 0.0), (1, 1, 1.0), (3, 1, 1 / 3), (8, 2, 0.25), (500, 10, 0.02)]
)
def test_a_pace_is_kept_by_small_batches_and_pauses(per_second: int, batch: int, pause_s: float) -> None:
    assert pace(per_second) == (batch, pause_s)
    assert pause_s <= POLL_INTERVAL_S
