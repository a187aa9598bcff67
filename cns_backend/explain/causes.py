"""Causes in words for a person, and what to do: the one table of commands, pages and the portal."""

from __future__ import annotations

from collections.abc import Mapping

from cns.endpoints.outcome import Cause
from cns_backend.explain.model import Why

_MUTED = frozenset(
    {Cause.GONE, Cause.OPTED_OUT, Cause.NOT_VERIFIED, Cause.ENDPOINT_DISABLED, Cause.ENDPOINT_GONE, "subscription_gone"}
)
_CAUSES: Mapping[str, Why] = {
    Cause.STATUS: Why("the endpoint answered with an error", "Look at the endpoint's own log at this time."),
    Cause.TIMEOUT: Why("the endpoint did not answer in time", "It may be overloaded, or hang."),
    Cause.CONNECTION: Why("the endpoint is down: no connection", "Check that it runs, and that this host reaches it."),
    Cause.TLS: Why("no TLS connection with the endpoint", "Check its certificate, and CNS_CA_BUNDLE."),
    Cause.DNS: Why("the endpoint's name is not known", "Check the URL, and the name server of this host."),
    Cause.MAIL_REFUSED: Why("the mail relay refuses the recipient", "Check the address."),
    Cause.MAIL_RELAY: Why("the mail relay refuses this service", "Check CNS_SMTP_URL."),
    Cause.MAIL_RATE: Why("throttled: the subscription gets too many mails", "It is sent when the rate allows it."),
    Cause.REFUSED_ADDRESS: Why("the endpoint's address is private", "Allow its network by CNS_ALLOWED_NETWORKS."),
    Cause.INVALID_URL: Why("the endpoint's URL cannot be used", "Subscribe again with a valid URL."),
    Cause.QUEUE: Why("the queue refused the message", "The answer of the queue is in the attempt."),
    Cause.OUTBOX: Why("the outbox could not be written", "Look at the worker's log."),
    Cause.STORE: Why("the store was away", "Deliveries continue when it is back."),
    Cause.WORKER: Why("a defect of the worker", "Look at the worker's log."),
    Cause.GONE: Why("the subscription was deleted before"),
    Cause.OPTED_OUT: Why("muted: the phone number has opted out", "It must opt in: sns opt-in-phone-number."),
    Cause.NOT_VERIFIED: Why(
        "muted by the sandbox: the phone number is not verified", "Verify it, or leave the sandbox (CNS_SMS_SANDBOX)."
    ),
    Cause.ENDPOINT_DISABLED: Why("the mobile endpoint is disabled", "Set its attribute Enabled."),
    Cause.ENDPOINT_GONE: Why("the mobile endpoint is gone"),
    "notification_lost": Why("the stored message was lost", "Look at the store's health."),
    "invalid_attributes": Why("an attribute of the message is malformed, so no filter can be evaluated"),
    "deadline_while_open": Why("the endpoint stayed down until the message's time was over"),
    "deadline_while_waiting": Why(
        "the endpoint was too slow, or hung, until the message's time was over", "Look at the endpoint's answer times."
    ),
    "deadline_while_paused": Why("the subscription was paused until the message's time was over", "Resume it earlier."),
    "deadline_while_throttled": Why("throttled until the message's time was over", "Raise maxReceivesPerSecond."),
}
NO_POLICY = Why(
    "no policy: the queue does not allow the topic to send",
    "Add a statement to the queue's policy that allows sns.amazonaws.com sqs:SendMessage for this topic's ARN.",
)
NO_QUEUE = Why("no such queue", "Create the queue again, or delete the subscription.")
_QUEUE_CODES: Mapping[str, Why] = {"AccessDenied": NO_POLICY, "QueueDoesNotExist": NO_QUEUE}
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
_SPENT = "all attempts are spent: {}"
_PERMANENT = "given up at once: {}"
_REFUSED = "lost: {}, and the dead-letter queue refused it"


def throttled(per_second: int, position: str) -> Why:
    """`position`: how many messages are before it, and when it is due."""
    return Why(f"throttled: {per_second} a second{position}", "Raise maxReceivesPerSecond of its policy, or wait.")


def unprotected(protocol: str, attributes: Mapping[str, str]) -> bool:
    """Whether a message of the subscription is lost when its endpoint is down."""
    return protocol in ("http", "https") and not attributes.get("RedrivePolicy")


def is_of_concern(cause: str) -> bool:
    """Whether a drop says that something is wrong; not if the recipient is gone or muted."""
    return cause.rpartition(":")[2] not in _MUTED


def why_failed(cause: str, reason: str = "") -> Why:
    """`cause` of an attempt or an outcome, such as `timeout` or `spent:status`; `reason` is the endpoint's answer."""
    prefix, _, last = cause.rpartition(":")
    why = _CAUSES.get(last, Why(last))
    if last == Cause.QUEUE:
        why = next((known for code, known in _QUEUE_CODES.items() if code in reason), why)
    match prefix:
        case "spent":
            return Why(_SPENT.format(why.title), why.advice)
        case "dead_letter_queue_refused":
            return Why(_REFUSED.format(why.title), "Check the dead-letter queue and its policy.")
        case "permanent" if last not in (Cause.QUEUE, Cause.OPTED_OUT, Cause.NOT_VERIFIED):
            return Why(_PERMANENT.format(why.title), why.advice)
        case _:
            return why
