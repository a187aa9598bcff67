"""Deliveries that the feedback attributes ask to log."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cns.delivery.status_logging import NO_FEEDBACK, Feedback, application_feedback, sms_feedback, topic_feedback

spec = pytest.mark.spec
ROLE = "arn:aws:iam::123456789012:role/logs"
PROTOCOLS = [
    ("http", "HTTP"),
    ("https", "HTTP"),
    ("sqs", "SQS"),
    ("lambda", "Lambda"),
    ("firehose", "Firehose"),
    ("application", "Application"),
]


@spec("sns-log.rate")
@pytest.mark.parametrize(("protocol", "prefix"), PROTOCOLS)
@pytest.mark.parametrize(
    ("success", "rate", "failure", "feedback"),
    [
        (ROLE, None, None, Feedback(100, failures=False)),
        (ROLE, "0", None, Feedback(0, failures=False)),
        (ROLE, "25", ROLE, Feedback(25, failures=True)),
        (None, "100", None, NO_FEEDBACK),
        (None, None, ROLE, Feedback(0, failures=True)),
        ("", "50", "", NO_FEEDBACK),
    ],
)
def test_what_a_topic_wants(
    protocol: str, prefix: str, success: str | None, rate: str | None, failure: str | None, feedback: Feedback
) -> None:
    given = {
        f"{prefix}SuccessFeedbackRoleArn": success,
        f"{prefix}SuccessFeedbackSampleRate": rate,
        f"{prefix}FailureFeedbackRoleArn": failure,
    }
    attributes = {name: text for name, text in given.items() if text is not None}
    assert topic_feedback(attributes, protocol) == feedback
    others = {other for other, its_prefix in PROTOCOLS if its_prefix != prefix} | {
        "email",
        "email-json",
        "sms",
        "redis",
    }
    assert {topic_feedback(attributes, other) for other in others} == {NO_FEEDBACK}


@pytest.mark.parametrize(
    ("attributes", "feedback"),
    [
        ({}, NO_FEEDBACK),
        ({"SuccessFeedbackRoleArn": ROLE}, Feedback(100)),
        ({"SuccessFeedbackRoleArn": ROLE, "SuccessFeedbackSampleRate": "7"}, Feedback(7)),
        ({"FailureFeedbackRoleArn": ROLE}, Feedback(0, failures=True)),
    ],
)
def test_what_an_application_wants(attributes: Mapping[str, str], feedback: Feedback) -> None:
    assert application_feedback(attributes) == feedback


@pytest.mark.parametrize(
    ("attributes", "feedback"),
    [
        ({"DeliveryStatusSuccessSamplingRate": "100"}, NO_FEEDBACK),
        ({"DeliveryStatusIAMRole": ROLE}, Feedback(100, failures=True)),
        ({"DeliveryStatusIAMRole": ROLE, "DeliveryStatusSuccessSamplingRate": "0"}, Feedback(0, failures=True)),
    ],
)
def test_what_an_account_wants_of_its_sms(attributes: Mapping[str, str], feedback: Feedback) -> None:
    assert sms_feedback(attributes) == feedback


@pytest.mark.parametrize(
    ("feedback", "draw", "success", "wanted"),
    [
        (Feedback(25), 0.2499, True, True),
        (Feedback(25), 0.25, True, False),
        (Feedback(0, failures=True), 0.0, True, False),
        (Feedback(100), 0.9999999, True, True),
        (Feedback(100), 0.0, False, False),
        (Feedback(0, failures=True), 0.9999999, False, True),
    ],
)
def test_a_success_is_drawn_and_a_failure_is_not(feedback: Feedback, draw: float, success: bool, wanted: bool) -> None:
    assert feedback.wants(draw, success=success) is wanted
