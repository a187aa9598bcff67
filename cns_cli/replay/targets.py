"""Parses the target of a replay: the option --to."""

from __future__ import annotations

from cns.arns import check_subscription_arn, topic_fault
from cns_common.arn import parse_arn
from cns_common.errors import EXIT_USAGE, RequestError, StartError


def check_target(text: str) -> str:
    """Return the ARN of a subscription or a topic. Raises StartError."""
    arn = parse_arn(text)
    if arn is None or arn.service != "sns":
        reason = "is not the ARN of a subscription or a topic: subscribe a queue or URL, and name its subscription"
        raise StartError(f"--to {text} {reason}", EXIT_USAGE)
    if not is_subscription(text):
        return check_topic(text, "--to")
    try:
        check_subscription_arn(text, "")
    except RequestError as error:
        raise StartError(f"--to {text}: {error.message}", EXIT_USAGE) from None
    return text


def is_subscription(target: str) -> bool:
    """Whether a target is a subscription, not a topic."""
    arn = parse_arn(target)
    return arn is not None and ":" in arn.resource


def check_topic(text: str, option: str) -> str:
    """Return the ARN of a topic. Raises StartError."""
    fault = topic_fault(text, option, "")
    if fault is not None:
        raise StartError(f"{option} {text} is not the ARN of a topic", EXIT_USAGE)
    return text
