"""Checks the ARNs of topics, subscriptions and queues in SNS calls, with AWS's error texts."""

from __future__ import annotations

import re
from uuid import UUID

from cns.errors import invalid_parameter
from cns.limits import TOPIC_NAME_CHARS_MAX
from cns_common.arn import ACCOUNT_ID, Arn, parse_arn
from cns_common.aws.region import REGION_CHARS_MAX
from cns_common.errors import RequestError

PARTS = 6
TOPIC_ARN_CHARS_MAX = len("arn:aws:sns:") + REGION_CHARS_MAX + len(":123456789012:") + TOPIC_NAME_CHARS_MAX

_QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo")


def topic_fault(text: str, parameter: str, region: str) -> RequestError | None:
    """The error for a topic's ARN, or None. `region` is the caller's; '' allows every region."""
    arn = parse_arn(text)
    if arn is None:
        return _not_an_arn(text, parameter)
    return None if _is_ours(arn, region) and ":" not in arn.resource else invalid_parameter(parameter)


def check_topic_arn(text: str, parameter: str, region: str) -> None:
    fault = topic_fault(text, parameter, region)
    if fault is not None:
        raise fault


def check_subscription_arn(text: str, region: str) -> None:
    arn = parse_arn(text)
    if arn is None:
        raise _not_an_arn(text, "SubscriptionArn")
    if not _is_ours(arn, region):
        raise invalid_parameter("SubscriptionArn")
    _, _, subscription_id = arn.resource.partition(":")
    if not _is_uuid(subscription_id):
        raise invalid_parameter("SubscriptionId")


def parse_queue_arn(text: str) -> Arn | None:
    """The parts of a queue's ARN, or None when `text` is not the ARN of a queue."""
    arn = parse_arn(text)
    if arn is None or arn.partition != "aws" or arn.service != "sqs" or not arn.region:
        return None
    return arn if ACCOUNT_ID.fullmatch(arn.account) and _QUEUE_NAME.fullmatch(arn.resource) else None


def _is_ours(arn: Arn, region: str) -> bool:
    return (
        arn.partition == "aws"
        and arn.service == "sns"
        and (not region or arn.region == region)
        and ACCOUNT_ID.fullmatch(arn.account) is not None
        and len(arn.region) <= REGION_CHARS_MAX
        and 0 < len(arn.resource.partition(":")[0]) <= TOPIC_NAME_CHARS_MAX
        and arn.resource.isascii()
    )


def _not_an_arn(text: str, parameter: str) -> RequestError:
    parts = len(text.split(":"))
    if parts < PARTS:
        return invalid_parameter(f"{parameter} Reason: An ARN must have at least {PARTS} elements, not {parts}")
    return invalid_parameter(f"{parameter} Reason: {text} does not start with arn")


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
