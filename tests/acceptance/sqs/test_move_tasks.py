"""Message move tasks by boto3, worked on by the service's own workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.harness.waiting import wait_until
from tests.acceptance.sqs.moves import moves


def test_dead_letters_go_back_to_where_they_came_from(sqs: Any, new_name: Callable[[], str]) -> None:
    of = moves(sqs, new_name)
    of.die(25)
    of.start()
    task = of.end()
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"], task["ApproximateNumberOfMessagesToMove"]) == (
        "COMPLETED",
        25,
        25,
    )
    assert of.bodies(of.source) == [str(n) for n in range(25)]
    assert of.count(of.dead) == 0


@pytest.mark.spec("moves.pace", "moves.cancel")
def test_a_slow_task_is_seen_and_cancelled(sqs: Any, new_name: Callable[[], str]) -> None:
    of = moves(sqs, new_name)
    of.die(20)
    handle = of.start(MaxNumberOfMessagesPerSecond=2)
    wait_until(lambda: of.moved() >= 1)
    with pytest.raises(ClientError, match="There is already a task running"):
        of.start()
    assert sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"] < 20
    task = of.end()
    assert task["Status"] == "CANCELLED"
    assert "TaskHandle" not in task
    assert of.count(of.dead) + of.count(of.source) == 20
    assert of.count(of.source) == task["ApproximateNumberOfMessagesMoved"]
