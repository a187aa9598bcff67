"""Celery's tasks: what runs is shown by name, and a lost broker or worker loses nothing of what is recorded."""

from __future__ import annotations

import json
import signal
import uuid
from typing import Any

import pytest

from cns_workers.celery.tasks import CONFIRMATIONS, MAINTENANCE, MOVE, MOVES, REPLAY, REPLAYS
from lab.harness.own_redis import OwnRedis
from lab.harness.running import Up
from lab.harness.waiting import wait_until
from tests.acceptance.sqs.moves import Moves, moves
from tests.acceptance.topics import Topic, arn_of, queue_for
from tests.celery_host.celery_running import Celery, CeleryProcess

DEAD = 25
"""At one a second enough to kill a worker that moves them, on a busy machine, too."""
MANY = 100
LEASES_S = 61
"""After this time another worker has the task, and the messages that a killed one held."""


def new_name() -> str:
    return uuid.uuid4().hex[:12]


@pytest.fixture
def dead_letters(service: Up) -> Moves:
    found = moves(service.client("sqs"), new_name)
    found.die(DEAD)
    return found


def active(celery: Celery, worker: CeleryProcess) -> list[tuple[str, list[str]]]:
    """Name and arguments of the tasks that the worker runs, as an operator sees them."""
    return [(task["name"], task["args"]) for task in celery.ask("inspect", "active").get(worker.node, [])]


def ended(worker: CeleryProcess, task: str) -> list[str]:
    return [entry["record"] for entry in worker.events("recorded_task.ended") if entry["task"] == task]


def test_a_move_task_is_shown_while_it_runs(celery: Celery, dead_letters: Moves) -> None:
    worker = celery.worker("one", "--role", "maintenance")
    worker.wait_connected()
    dead_letters.die(MANY)
    dead_letters.start(MaxNumberOfMessagesPerSecond=1)
    shown: list[tuple[str, list[str]]] = []

    def is_shown() -> bool:
        shown.extend(active(celery, worker))
        return bool(shown)

    wait_until(is_shown, worker.output)
    ((name, (record,)),) = shown
    assert name == MOVE
    dead_letters.sqs.cancel_message_move_task(TaskHandle=dead_letters.newest()["TaskHandle"])
    moved = int(dead_letters.end()["ApproximateNumberOfMessagesMoved"])
    wait_until(lambda: ended(worker, MOVE) == [record], worker.output)
    assert (dead_letters.count(dead_letters.source), dead_letters.count(dead_letters.dead)) == (
        moved,
        DEAD + MANY - moved,
    )
    registered = celery.ask("inspect", "registered")[worker.node]
    assert {CONFIRMATIONS, MAINTENANCE, MOVE, MOVES, REPLAY, REPLAYS, "pipeline.run"} <= set(registered)


def test_a_replay_is_a_task(service: Up, celery: Celery) -> None:
    worker = celery.worker("one")
    worker.wait_connected()
    sns: Any = service.client("sns")
    archived = {"ArchivePolicy": json.dumps({"MessageRetentionPeriod": "30"})}
    topic = Topic(sns, sns.create_topic(Name=new_name(), Attributes=archived)["TopicArn"])
    sqs: Any = service.client("sqs")
    queue = queue_for(sqs, topic.arn)
    for n in range(5):
        topic.publish(str(n))
    wait_until(lambda: service.metric("cns_build_info"))
    beginning = sns.get_topic_attributes(TopicArn=topic.arn)["Attributes"]["BeginningArchiveTime"]
    policy = json.dumps({"PointType": "Timestamp", "StartingPoint": beginning})
    subscription = topic.subscribe("sqs", arn_of(sqs, queue), ReplayPolicy=policy)
    wait_until(lambda: ended(worker, REPLAY), worker.output)
    attributes = sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]
    assert attributes["ReplayStatus"] == "Completed"


def test_without_a_broker_the_worker_runs_what_is_recorded(
    broker: OwnRedis, celery: Celery, dead_letters: Moves
) -> None:
    worker = celery.worker("one")
    worker.wait_connected()
    broker.kill()
    try:
        dead_letters.start()
        assert dead_letters.end()["Status"] == "COMPLETED"
    finally:
        broker.start()
    assert dead_letters.count(dead_letters.source) == DEAD


def test_a_silent_broker_delays_nothing_for_long(broker: OwnRedis, celery: Celery, dead_letters: Moves) -> None:
    worker = celery.worker("one")
    worker.wait_connected()
    broker.pause()
    try:
        dead_letters.start()
        assert dead_letters.end()["Status"] == "COMPLETED"
    finally:
        broker.resume()
    assert dead_letters.count(dead_letters.source) == DEAD


def test_what_a_killed_worker_ran_another_continues(service: Up, celery: Celery, dead_letters: Moves) -> None:
    one, two = celery.workers("one", "two", options=("--role", "maintenance"))
    beat = celery.start("beat", "beat", "--schedule", str(celery.directory / "schedule"))
    one.wait_connected()
    two.wait_connected()
    dead_letters.start(MaxNumberOfMessagesPerSecond=1)
    wait_until(dead_letters.moved, lambda: one.output() + two.output())
    runs, other = (one, two) if f"Task {MOVE}[" in one.output() else (two, one)
    runs.send_signal(signal.SIGKILL)
    assert runs.wait() == -signal.SIGKILL
    service.advance(LEASES_S)
    wait_until(lambda: dead_letters.newest()["Status"] == "COMPLETED", other.output)
    wait_until(lambda: ended(other, MOVE), other.output)
    assert sorted(set(dead_letters.bodies(dead_letters.source)), key=int) == [str(n) for n in range(DEAD)]
    assert beat.stop() == 0
    assert "Sending due task moves.sweep" in beat.output()
