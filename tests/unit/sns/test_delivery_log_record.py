"""Records of delivery status logs, member by member, and their groups."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from cns.delivery.retry_policy import QUEUE_POLICY
from cns.delivery.status_logging import NO_FEEDBACK
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns_backend.delivery_logs.record import LoggedAttempt, group_of_arn, group_of_phones, record_line

spec = pytest.mark.spec
TOPIC = "arn:aws:sns:us-east-1:123456789012:orders"
PUBLISHED_MS = 1_724_753_433_576  # 2024-08-27 10:10:33.576 UTC
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
NO = "queue policy does not allow topic arn:aws:sns:us-east-1:123456789012:orders"
NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"


def target(protocol: str, endpoint: str, redrive_policy: str = "") -> Target:
    return Target(
        arn=f"{TOPIC}:s",
        protocol=protocol,
        endpoint=endpoint,
        confirmed=True,
        raw=False,
        retry=QUEUE_POLICY,
        content_type="",
        dead_letter_arn="",
        signature_version="1",
        account="123456789012",
        region="us-east-1",
        redrive_policy=redrive_policy,
        feedback=NO_FEEDBACK,
    )


def record(to: Target, outcome: Outcome, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "message_id": "m-1",
        "topic": TOPIC,
        "published_ms": PUBLISHED_MS,
        "at_ms": PUBLISHED_MS + 50,
        "number": 1,
        "message_md5": "ed53",
        **more,
    }
    line = record_line(LoggedAttempt(target=to, outcome=outcome, **given), success=isinstance(outcome, Delivered))
    assert line.count(b"\n") == 1
    made: dict[str, Any] = json.loads(line)
    return made


@spec("sns-log.record")
def test_a_record_of_aws() -> None:
    """The record of a delivery to a queue, member by member; a second attempt has its number."""
    policy = '{"deadLetterTargetArn": "arn:aws:sqs:us-east-1:123456789012:dead"}'
    made = record(target("sqs", "arn:aws:sqs:us-east-1:123456789012:q", policy), Delivered(200, 3, "id-1"), number=2)
    delivery_id = made["delivery"]["deliveryId"]
    assert UUID.fullmatch(delivery_id)
    assert json.dumps(made) == json.dumps(
        {
            "notification": {
                "messageMD5Sum": "ed53",
                "messageId": "m-1",
                "topicArn": TOPIC,
                "timestamp": "2024-08-27 10:10:33.576",
            },
            "delivery": {
                "deliveryId": delivery_id,
                "destination": "arn:aws:sqs:us-east-1:123456789012:q",
                "providerResponse": f'{{"sqsRequestId":"{delivery_id}","sqsMessageId":"id-1"}}',
                "dwellTimeMs": 47,
                "attempts": 2,
                "statusCode": 200,
                "redrivePolicy": policy,
            },
            "status": "SUCCESS",
        }
    )


@spec("sns-log.record")
def test_what_is_not_there_is_left_out() -> None:
    """Members without a value are left out: a confirmation has no checksum, an SMS no topic, a first attempt no number,
    and most records no policy."""
    made = record(target("sms", "+15551234567"), Delivered(200, 0), topic="", message_md5="")
    assert list(made["notification"]) == ["messageId", "timestamp"]
    assert list(made["delivery"]) == ["deliveryId", "destination", "providerResponse", "dwellTimeMs", "statusCode"]


def test_each_attempt_has_an_id_of_its_own() -> None:
    to = target("http", "http://x")
    first, second = record(to, Delivered(200, 3)), record(to, Delivered(200, 3))
    assert first["delivery"]["deliveryId"] != second["delivery"]["deliveryId"]


def test_a_password_is_not_written() -> None:
    made = record(target("https", "https://me:secret@example.com/x"), Delivered(200, 1))
    assert made["delivery"]["destination"] == "https://me:****@example.com/x"


def refusal(code: str, text: str) -> str:
    return json.dumps({"ErrorCode": code, "ErrorMessage": text, "sqsRequestId": "Unrecoverable"}, separators=(",", ":"))


@spec("sns-log.provider-response")
@pytest.mark.parametrize(
    ("protocol", "outcome", "status", "response"),
    [
        ("http", Delivered(204, 1, response="No Content"), 204, "No Content"),
        ("https", Failed(Cause.STATUS, "HTTP 503", 1, 503, response="Busy"), 503, "Busy"),
        ("http", Failed(Cause.TIMEOUT, "no answer in time", 1), 0, "no answer in time"),
        ("http", Failed(Cause.STATUS, "HTTP 500", 1, 500, response="x" * 5_000), 500, "x" * 1_024),
        ("lambda", Delivered(200, 1, "id"), 202, '{"lambdaRequestId":"id"}'),
        ("firehose", Delivered(200, 1, "id"), 200, '{"firehoseRequestId":"id"}'),
        ("sms", Delivered(200, 1, "id"), 200, "Message has been accepted by phone carrier"),
        ("sqs", Failed(Cause.QUEUE, f"AccessDenied: {NO}", 1, code="AccessDenied"), 403, refusal("AccessDenied", NO)),
        ("sqs", Failed(Cause.QUEUE, f"Odd: {NO}", 1, 418, code="Odd"), 418, refusal("Odd", NO)),
        ("sqs", Failed(Cause.QUEUE, "QueueDoesNotExist: x", 1, code="QueueDoesNotExist"), 400, refusal(NO_QUEUE, "x")),
        (
            "sqs",
            Failed(Cause.QUEUE, "InvalidParameterValue: 11: too many", 1, code="InvalidParameterValue"),
            400,
            refusal("InvalidParameterValue", "11: too many"),
        ),
        ("sqs", Failed(Cause.QUEUE, "the store is away", 1), 0, "the store is away"),
    ],
)
def test_what_the_endpoint_said(protocol: str, outcome: Outcome, status: int, response: str) -> None:
    made = record(target(protocol, "e"), outcome)
    assert (made["delivery"]["statusCode"], made["delivery"]["providerResponse"]) == (status, response)
    assert made["status"] == ("SUCCESS" if isinstance(outcome, Delivered) else "FAILURE")


def test_a_clock_that_is_behind_the_publishers() -> None:
    assert record(target("http", "e"), Delivered(200, 3), at_ms=PUBLISHED_MS - 9)["delivery"]["dwellTimeMs"] == 0


@spec("sns-log.groups")
@pytest.mark.parametrize(
    ("arn", "group"),
    [
        (TOPIC, "sns/us-east-1/123456789012/orders"),
        ("arn:aws:sns:eu-west-1:123456789012:a.fifo", "sns/eu-west-1/123456789012/a.fifo"),
        ("arn:aws:sns:us-west-2:123456789012:app/GCM/shop", "sns/us-west-2/123456789012/app/GCM/shop"),
        ("nonsense", ""),
    ],
)
def test_groups(arn: str, group: str) -> None:
    assert group_of_arn(arn) == group


@spec("sns-log.direct")
def test_the_group_of_phones() -> None:
    assert group_of_phones("123456789012", "us-east-1") == "sns/us-east-1/123456789012/DirectPublishToPhoneNumber"
