"""ARNs of topics, subscriptions and queues: accepted ones, and the errors for others."""

from __future__ import annotations

import pytest

from cns.arns import check_subscription_arn, check_topic_arn, parse_queue_arn
from tests.unit.sns.refusals import complaint_of

TOPIC = "arn:aws:sns:eu-west-1:111111111111:t"
UUID = "6ab180b4-f6c7-4ab5-8747-757d1d466e12"


@pytest.mark.parametrize(
    ("arn", "complaint"),
    [
        ("", "TopicArn Reason: An ARN must have at least 6 elements, not 1"),
        ("randomtopic", "TopicArn Reason: An ARN must have at least 6 elements, not 1"),
        ("randomtopic:1", "TopicArn Reason: An ARN must have at least 6 elements, not 2"),
        ("arn:aws:sns:eu-west-1:t", "TopicArn Reason: An ARN must have at least 6 elements, not 5"),
        (
            "x:aws:sns:eu-west-1:111111111111:t",
            "TopicArn Reason: x:aws:sns:eu-west-1:111111111111:t does not start with arn",
        ),
        ("arn:aws:sns:us-east-1:111111111111:t", "TopicArn"),
        ("arn:aws:sqs:eu-west-1:111111111111:t", "TopicArn"),
        ("arn:aws-cn:sns:eu-west-1:111111111111:t", "TopicArn"),
        ("arn:aws:sns:eu-west-1:1:t", "TopicArn"),
        ("arn:aws:sns:eu-west-1:111111111111:", "TopicArn"),
        (f"{TOPIC}:{UUID}", "TopicArn"),
    ],
)
def test_topic_arns_refused(arn: str, complaint: str) -> None:
    assert complaint_of(check_topic_arn, arn, "TopicArn", "eu-west-1") == complaint


def test_topic_arns_taken() -> None:
    check_topic_arn(TOPIC, "TopicArn", "eu-west-1")
    check_topic_arn(TOPIC, "TopicArn", "")


@pytest.mark.parametrize(
    ("arn", "complaint"),
    [
        ("pending confirmation", "SubscriptionArn Reason: An ARN must have at least 6 elements, not 1"),
        ("arn:aws:sns:eu-west-1:1", "SubscriptionArn Reason: An ARN must have at least 6 elements, not 5"),
        (f"arn:aws:sns:us-east-1:111111111111:t:{UUID}", "SubscriptionArn"),
        (TOPIC, "SubscriptionId"),
        (f"{TOPIC}:", "SubscriptionId"),
        (f"{TOPIC}:x", "SubscriptionId"),
        (f"{TOPIC}:{UUID}0", "SubscriptionId"),
        (f"{TOPIC}:{UUID.replace('-', '')}", "SubscriptionId"),
        (f"{TOPIC}:x:{UUID}", "SubscriptionId"),
    ],
)
def test_subscription_arns_refused(arn: str, complaint: str) -> None:
    assert complaint_of(check_subscription_arn, arn, "eu-west-1") == complaint


def test_subscription_arns_taken() -> None:
    check_subscription_arn(f"{TOPIC}:{UUID}", "eu-west-1")
    check_subscription_arn(f"{TOPIC}:{UUID}", "")


@pytest.mark.parametrize(
    ("arn", "taken"),
    [
        ("arn:aws:sqs:eu-west-1:111111111111:q", True),
        ("arn:aws:sqs:eu-west-1:111111111111:q.fifo", True),
        ("arn:aws:sqs:eu-west-1:111111111111:q.x", False),
        ("arn:aws:sqs:eu-west-1:111111111111:" + "q" * 81, False),
        ("arn:aws:sqs:eu-west-1:111111111111:", False),
        ("arn:aws:sqs:eu-west-1:11:q", False),
        ("arn:aws:sqs::111111111111:q", False),
        (TOPIC, False),
        ("http://localhost:6059/111111111111/q", False),
    ],
)
def test_queue_arns(arn: str, taken: bool) -> None:
    assert (parse_queue_arn(arn) is not None) is taken
