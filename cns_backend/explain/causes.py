"""Says what a state of a message or subscription means, and what to do about it. Causes of failures are in
`cns.delivery.failure_causes`."""

from __future__ import annotations

from collections.abc import Mapping

from cns.delivery.failure_causes import Why
from cns.protocols.table import find_protocol

FILTERED = Why("filtered: the filter policy does not match the message", "Try the policy on the subscription's page.")
UNCONFIRMED = Why(
    "unconfirmed: the endpoint had not confirmed the subscription",
    "Subscribe the endpoint again: it gets a new confirmation message, with a link or token.",
)
LATER = Why("the endpoint was subscribed after the message was published")
BUSY = Why("waits: its endpoint is busy or down", "See the endpoint's circuit breaker.")
PAUSED = Why("paused: the subscription holds its messages", "They are sent when it is resumed, within 14 days.")
MUTED = Why(
    "muted: the phone number opted out, or is not verified in the sandbox",
    "sns check-if-phone-number-is-opted-out; sns list-sms-sandbox-phone-numbers.",
)
NOBODY = Why("no subscription was to get it", "The topic has none, or each one is filtered or not confirmed.")
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
