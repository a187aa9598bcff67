"""The front door logs each call at level debug, and none above it."""

from __future__ import annotations

import logging

import pytest
import structlog
from structlog.testing import LogCapture

from cns_common.aws import front_door as front
from tests.integration.cqs.door import STRANGER, open_door
from tests.integration.cqs.sqs import ACCOUNT, OTHER_ACCOUNT, Sqs


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> LogCapture:
    """The lines of the front door, at any level."""
    capture = LogCapture()
    all_levels = structlog.make_filtering_bound_logger(logging.DEBUG)
    monkeypatch.setattr(front, "log", structlog.wrap_logger(None, processors=[capture], wrapper_class=all_levels))
    return capture


async def test_each_call_is_logged_at_debug(sqs: Sqs, captured: LogCapture) -> None:
    async with open_door(sqs, log_calls=True) as door:
        url = await door.queue("q")
        reply = await door.query("SendMessage", {"QueueUrl": url, "MessageBody": "x"})
        await door.json("SendMessage", key=STRANGER, QueueUrl=url, MessageBody="x")
        await door.json("GetQueueUrl", QueueName="absent")
        await door.query("GetQueueUrl", {"QueueName": "absent"})
        await door.send("POST", "/", {"x-amz-target": "AmazonSQS.Nonsense"}, b"{}")
        await door.json("ListQueues", key=STRANGER)
    lines = captured.entries
    assert all(
        (line["event"], line["log_level"]) == ("api_call.answered", "debug") and line["ms"] > 0 for line in lines
    )
    assert [(line["operation"], line["account"], line["status"], line["error"]) for line in lines] == [
        ("CreateQueue", ACCOUNT, 200, None),
        ("SendMessage", ACCOUNT, 200, None),
        ("SendMessage", OTHER_ACCOUNT, 403, "AccessDenied"),
        ("GetQueueUrl", ACCOUNT, 400, "QueueDoesNotExist"),
        ("GetQueueUrl", ACCOUNT, 400, "QueueDoesNotExist"),
        ("?", "", 400, "InvalidAction"),
        ("ListQueues", OTHER_ACCOUNT, 200, None),
    ]
    assert lines[1]["request_id"] == reply.headers["x-amzn-requestid"]


async def test_no_call_is_logged_above_debug(sqs: Sqs, captured: LogCapture) -> None:
    async with open_door(sqs) as door:
        await door.json("ListQueues")
        await door.query("GetQueueUrl", {"QueueName": "absent"})
    assert captured.entries == []
