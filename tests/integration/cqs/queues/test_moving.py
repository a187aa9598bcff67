"""Message move tasks: the moved messages, the task's record, and what a dead worker left."""

from __future__ import annotations

import asyncio

import pytest

from cqs.queues.urls import key_of_arn
from cqs.redrive.mover import MOVE_LEASE_MS
from tests.integration.cqs.queues.move_site import Site, move_site
from tests.integration.cqs.sqs import Sqs, refused
from workers.background.move_tasks import POLL_INTERVAL_S, pace


@pytest.fixture
async def site(sqs: Sqs) -> Site:
    return await move_site(sqs)


@pytest.mark.spec("moves.back-to-source", "moves.new-identity", "moves.list-fields", "moves.to-move")
async def test_messages_go_back_to_the_queue_they_came_from_as_new_ones(site: Site) -> None:
    await site.die("a", "b")
    (before,) = await site.sqs.receive(site.dead, 1, VisibilityTimeout=0, AttributeNames=["All"])
    began_ms = site.sqs.clock.now_ms()
    handle = await site.start()
    (task,) = await site.listed()
    assert began_ms <= task.pop("StartedTimestamp") <= site.sqs.clock.now_ms()
    assert task == {
        "Status": "RUNNING",
        "SourceArn": await site.sqs.arn(site.dead),
        "ApproximateNumberOfMessagesMoved": 0,
        "ApproximateNumberOfMessagesToMove": 2,
        "TaskHandle": handle,
    }
    site.sqs.advance(1)
    task = await site.end()
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 2)
    assert "TaskHandle" not in task
    messages = await site.sqs.receive(site.source, AttributeNames=["All"])
    assert sorted(message["Body"] for message in messages) == ["a", "b"]
    for message in messages:
        assert message["MessageId"] != before["MessageId"]
        assert message["Attributes"]["ApproximateReceiveCount"] == "1"
        assert message["Attributes"]["SentTimestamp"] > before["Attributes"]["SentTimestamp"]
        first = "ApproximateFirstReceiveTimestamp"
        assert message["Attributes"][first] > before["Attributes"][first]
        assert "DeadLetterQueueSourceArn" not in message["Attributes"]
    assert await site.sqs.counts(site.dead) == (0, 0, 0)


@pytest.mark.spec("moves.to-destination")
async def test_messages_go_where_the_task_says(site: Site) -> None:
    arn = await site.sqs.arn(site.other)
    await site.die("a")
    await site.sqs.send(
        site.dead, "sent there", MessageAttributes={"n": {"DataType": "Number", "StringValue": "7"}}, MessageGroupId="g"
    )
    await site.start(DestinationArn=arn, MaxNumberOfMessagesPerSecond=500)
    (task,) = await site.listed()
    assert (task["DestinationArn"], task["MaxNumberOfMessagesPerSecond"]) == (arn, 500)
    assert (await site.end())["ApproximateNumberOfMessagesMoved"] == 2
    messages = await site.sqs.receive(site.other, MessageAttributeNames=["All"], AttributeNames=["MessageGroupId"])
    found = {message["Body"]: message for message in messages}
    assert found.keys() == {"a", "sent there"}
    assert found["sent there"]["MessageAttributes"]["n"]["StringValue"] == "7"
    assert found["sent there"]["Attributes"]["MessageGroupId"] == "g"


@pytest.mark.spec("moves.no-known-source")
async def test_a_message_of_no_known_source_fails_the_task_and_stays(site: Site) -> None:
    await site.sqs.send(site.dead, "sent there")
    await site.start()
    task = await site.end()
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    assert await site.sqs.bodies(site.dead) == ["sent there"]


@pytest.mark.spec("moves.source-gone")
@pytest.mark.parametrize("gone", ["source", "dead"])
async def test_a_queue_that_is_gone_fails_the_task(site: Site, gone: str) -> None:
    await site.die("a")
    await site.start()
    (task,) = await site.tasks.newest(await site.sqs.arn(site.dead), 1)
    await site.sqs("DeleteQueue", QueueUrl=getattr(site, gone))
    ended = (await site.mover.step(task, 10)).task
    assert (ended.status, ended.failure) == ("FAILED", "AWS.SimpleQueueService.NonExistentQueue")
    if gone == "source":
        assert await site.sqs.bodies(site.dead) == ["a"]


@pytest.mark.spec("moves.newest-first")
async def test_the_last_ten_are_listed_newest_first(site: Site) -> None:
    for rate in range(1, 13):
        await site.start(MaxNumberOfMessagesPerSecond=rate)
        assert (await site.end())["Status"] == "COMPLETED"
        site.sqs.advance(1)
    assert [task["MaxNumberOfMessagesPerSecond"] for task in await site.listed(MaxResults=10)] == list(range(12, 2, -1))
    assert len(await site.listed()) == 1


@pytest.mark.spec("moves.cancel")
async def test_a_cancelled_task_moves_no_more(site: Site) -> None:
    await site.die("a", "b", "c")
    handle = await site.start(MaxNumberOfMessagesPerSecond=1)
    (task,) = await site.tasks.newest(await site.sqs.arn(site.dead), 1)
    assert (await site.mover.step(task, 1)).taken == 1
    assert await site.sqs("CancelMessageMoveTask", TaskHandle=handle) == {"ApproximateNumberOfMessagesMoved": 1}
    assert (await site.listed())[0]["Status"] == "CANCELLING"
    assert (await refused(site.sqs("CancelMessageMoveTask", TaskHandle=handle)))[1] == "Task does not exist."
    task_shown = await site.end()
    assert (task_shown["Status"], task_shown["ApproximateNumberOfMessagesMoved"]) == ("CANCELLED", 1)
    assert (await site.sqs.counts(site.dead))[0] == 2


@pytest.mark.spec("moves.36-hours")
async def test_a_task_ends_after_36_hours(site: Site) -> None:
    await site.start()
    (task,) = await site.tasks.newest(await site.sqs.arn(site.dead), 1)
    site.sqs.advance(36 * 3_600 + 1)
    ended = (await site.mover.step(task, 10)).task
    assert (ended.status, ended.failure) == ("FAILED", "TaskTimedOut")


@pytest.mark.spec("moves.resumed")
async def test_messages_of_a_dead_worker_are_moved_by_the_next(site: Site) -> None:
    """A worker died with a batch: the next one must not complete the task before the lease ends."""
    await site.die("a", "b")
    await site.start()
    (task,) = await site.tasks.newest(await site.sqs.arn(site.dead), 1)
    await site.mover.begin(task)
    now_ms = site.sqs.clock.now_ms()
    key = key_of_arn(task.source_arn)
    assert key is not None
    view = await site.sqs.service.cache.find(key)
    assert view is not None
    assert len((await view.engine.receive(view.ref_without_redrive, 10, now_ms + MOVE_LEASE_MS, now_ms)).messages) == 2
    stepping = asyncio.create_task(site.runner.step())
    await asyncio.sleep(0.05)  # the step finds nothing: all messages are in flight
    assert (await site.listed())[0]["Status"] == "RUNNING"
    site.sqs.advance(MOVE_LEASE_MS / 1000 + 1)
    assert (await site.end())["ApproximateNumberOfMessagesMoved"] == 2
    stepping.cancel()


# -- FIFO -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("moves.fifo-order", "moves.fifo-dedup-id")
async def test_fifo_messages_keep_their_order_and_get_their_old_id_for_deduplication(sqs: Sqs) -> None:
    site = await move_site(sqs, ".fifo")
    await site.die("a", "b", "c", MessageGroupId="g")
    dead = await sqs.receive(site.dead, VisibilityTimeout=0)
    await site.start(DestinationArn=await sqs.arn(site.other))
    assert (await site.end())["ApproximateNumberOfMessagesMoved"] == 3
    moved = await sqs.receive(site.other, AttributeNames=["All"])
    assert [message["Body"] for message in moved] == ["a", "b", "c"]
    assert [message["Attributes"]["MessageDeduplicationId"] for message in moved] == [
        message["MessageId"] for message in dead
    ]


@pytest.mark.spec("moves.fifo-in-flight")
async def test_a_message_in_flight_blocks_its_group_and_no_other(sqs: Sqs) -> None:
    site = await move_site(sqs, ".fifo")
    await site.die("a1", "a2", MessageGroupId="a")
    await sqs.send(site.dead, "b1", MessageGroupId="b", MessageDeduplicationId="b1")
    assert await sqs.bodies(site.dead, 1) == ["a1"]
    await site.start(DestinationArn=await sqs.arn(site.other))
    assert (await site.end())["ApproximateNumberOfMessagesMoved"] == 1
    assert await sqs.bodies(site.other) == ["b1"]
    assert await sqs.counts(site.dead) == (1, 1, 0)


@pytest.mark.spec("moves.fifo-duplicate")
async def test_a_duplicate_at_the_destination_is_dropped_and_not_counted(sqs: Sqs) -> None:
    site = await move_site(sqs, ".fifo")
    await site.die("a", MessageGroupId="g")
    (dead,) = await sqs.receive(site.dead, VisibilityTimeout=0)
    await sqs.send(site.other, "here already", MessageGroupId="g", MessageDeduplicationId=dead["MessageId"])
    await site.start(DestinationArn=await sqs.arn(site.other))
    assert (await site.end())["ApproximateNumberOfMessagesMoved"] == 0
    assert await sqs.bodies(site.other) == ["here already"]
    assert await sqs.counts(site.dead) == (0, 0, 0)


# -- pace -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("moves.pace")
@pytest.mark.parametrize(
    ("per_second", "batch", "pause_s"), [(0, 10, 0.0), (1, 1, 1.0), (3, 1, 1 / 3), (8, 2, 0.25), (500, 10, 0.02)]
)
def test_a_pace_is_kept_by_small_batches_and_pauses(per_second: int, batch: int, pause_s: float) -> None:
    assert pace(per_second) == (batch, pause_s)
    assert pause_s <= POLL_INTERVAL_S
