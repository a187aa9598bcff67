"""States of a message or a subscription in words for a person, and what to do. Failures have a table of causes:
`cns.delivery.failure_causes`."""

from __future__ import annotations

from collections.abc import Mapping

from cns.delivery.failure_causes import Why
from cns.protocols.table import find_protocol

FILTERED = Why("filtered: the filter policy keeps it away", "Try the policy on the subscription's page.")
UNCONFIRMED = Why(
    "unconfirmed: the endpoint had not confirmed the subscription",
    "It gets a link or token when it is subscribed; subscribe it again to have it sent again.",
)
LATER = Why("it was subscribed after the message was published")
BUSY = Why("waits for room: its endpoint is busy or down", "See the endpoint's circuit breaker.")
PAUSED = Why("paused: the subscription holds its messages", "They are sent when it is resumed, within 14 days.")
MUTED = Why(
    "muted: the phone number has opted out, or the sandbox does not know it",
    "sns check-if-phone-number-is-opted-out; sns list-sms-sandbox-phone-numbers.",
)
NOBODY = Why("no subscription was to get it", "Each one is filtered or not confirmed, or the topic has none.")
QUARANTINED = Why("in quarantine: its job failed too often", "cns quarantine list, show, release.")
NO_DEAD_LETTER_QUEUE = Why(
    "no dead-letter queue, so that a message whose attempts all fail is lost, by default within a minute",
    "aws sns set-subscription-attributes --subscription-arn {} --attribute-name RedrivePolicy"
    """ --attribute-value '{{"deadLetterTargetArn":"ARN OF A QUEUE"}}'""",
)


def throttled(per_second: int, position: str) -> Why:
    """`position`: how many messages are before it, and when it is due."""
    return Why(f"throttled: {per_second} a second{position}", "Raise maxReceivesPerSecond of its policy, or wait.")


def unprotected(protocol: str, attributes: Mapping[str, str]) -> bool:
    """Whether a message of the subscription is lost when its endpoint is down."""
    return find_protocol(protocol).web and not attributes.get("RedrivePolicy")
