"""The table of causes: why a subscription does not get a message, in words for a person, and what to do.

Metrics, events, logs, `cns explain`, pages, reports and docs/operations/monitoring.md have these codes and these words.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from cns.endpoints.outcome import Cause


class FinalCause(StrEnum):
    """Causes of the end of a notification that are not the cause of an attempt."""

    SUBSCRIPTION_GONE = "subscription_gone"
    NOTIFICATION_LOST = "notification_lost"
    INVALID_ATTRIBUTES = "invalid_attributes"
    DEADLINE_OPEN = "deadline_while_open"
    DEADLINE_WAITING = "deadline_while_waiting"
    DEADLINE_THROTTLED = "deadline_while_throttled"
    DEADLINE_PAUSED = "deadline_while_paused"
    RECEIVES = "receives"  # of a message that a queue moved to its dead-letter queue


class End(StrEnum):
    """The reason for no further attempt although none succeeded: the prefix of the last attempt's cause."""

    PERMANENT = "permanent"
    SPENT = "spent"
    REFUSED = "dead_letter_queue_refused"


DEADLINES = (
    FinalCause.DEADLINE_OPEN,
    FinalCause.DEADLINE_WAITING,
    FinalCause.DEADLINE_THROTTLED,
    FinalCause.DEADLINE_PAUSED,
)


class RetryChance(StrEnum):
    """Whether a later attempt can succeed."""

    YES = "yes"
    NO = "no"
    BY_ANSWER = "by the answer"
    OF_REMOTE_QUEUE = "of a queue of another service"
    """Its URL is a setting, which the operator can correct."""


class FailureCause(NamedTuple):
    title: str
    advice: str = ""
    retry: RetryChance = RetryChance.NO
    expected: bool = False
    """Whether it is the recipient's own choice, so that nothing is wrong."""


class Why(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cause in words, and what to do about it."""

    title: str
    advice: str = ""


CAUSES: Mapping[str, FailureCause] = {
    Cause.STATUS: FailureCause(
        "the endpoint answered with an error", "Look at the endpoint's own log at this time.", RetryChance.BY_ANSWER
    ),
    Cause.TIMEOUT: FailureCause(
        "the endpoint did not answer in time", "It may be overloaded, or hang.", RetryChance.YES
    ),
    Cause.CONNECTION: FailureCause(
        "the endpoint is down: no connection", "Check that it runs, and that this host reaches it.", RetryChance.YES
    ),
    Cause.TLS: FailureCause(
        "no TLS connection with the endpoint", "Check its certificate, and CNS_CA_BUNDLE.", RetryChance.YES
    ),
    Cause.DNS: FailureCause(
        "the endpoint's name is not known", "Check the URL, and the name server of this host.", RetryChance.YES
    ),
    Cause.MAIL_REFUSED: FailureCause(
        "the mail relay refuses the recipient", "Check the address.", RetryChance.BY_ANSWER
    ),
    Cause.MAIL_RELAY: FailureCause("the mail relay refuses this service", "Check CNS_SMTP_URL.", RetryChance.YES),
    Cause.MAIL_RATE: FailureCause(
        "the subscription got too many mails in a second and is suspended",
        "Its reader must confirm it again. CNS_MAIL_RATE is the limit.",
    ),
    Cause.EGRESS_PROXY: FailureCause(
        "the egress proxy is away, or refuses this service",
        "Check that it runs, and CNS_EGRESS_PROXY. Messages wait for it for 14 days.",
        RetryChance.YES,
    ),
    Cause.EGRESS_ROUTE: FailureCause(
        "the egress proxy does not reach the endpoint, or may not",
        "Look at the proxy's log and its rules. Messages wait for an hour.",
        RetryChance.YES,
    ),
    Cause.REFUSED_ADDRESS: FailureCause(
        "the endpoint's address is private", "Allow its network by CNS_ALLOWED_NETWORKS.", RetryChance.OF_REMOTE_QUEUE
    ),
    Cause.INVALID_URL: FailureCause(
        "the endpoint's URL cannot be used", "Subscribe again with a valid URL.", RetryChance.OF_REMOTE_QUEUE
    ),
    Cause.QUEUE: FailureCause(
        "the queue refused the message", "The answer of the queue is in the attempt.", RetryChance.BY_ANSWER
    ),
    Cause.OUTBOX: FailureCause("the outbox could not be written", "Look at the worker's log.", RetryChance.YES),
    Cause.STORE: FailureCause("the store was away", "Deliveries continue when it is back.", RetryChance.YES),
    Cause.WORKER: FailureCause("a defect of the worker", "Look at the worker's log.", RetryChance.YES),
    Cause.OPTED_OUT: FailureCause(
        "muted: the phone number has opted out", "It must opt in: sns opt-in-phone-number.", expected=True
    ),
    Cause.NOT_VERIFIED: FailureCause(
        "muted by the sandbox: the phone number is not verified",
        "Verify it, or leave the sandbox (CNS_SMS_SANDBOX).",
        expected=True,
    ),
    Cause.ENDPOINT_DISABLED: FailureCause(
        "the mobile endpoint is disabled", "Set its attribute Enabled.", expected=True
    ),
    Cause.ENDPOINT_GONE: FailureCause("the mobile endpoint is gone", expected=True),
    FinalCause.SUBSCRIPTION_GONE: FailureCause("the subscription was deleted before", expected=True),
    FinalCause.NOTIFICATION_LOST: FailureCause("the stored message was lost", "Look at the store's health."),
    FinalCause.INVALID_ATTRIBUTES: FailureCause(
        "an attribute of the message is malformed, so no filter can be evaluated"
    ),
    FinalCause.DEADLINE_OPEN: FailureCause("the endpoint stayed down until the message's time was over"),
    FinalCause.DEADLINE_WAITING: FailureCause(
        "the endpoint was too slow, or hung, until the message's time was over", "Look at the endpoint's answer times."
    ),
    FinalCause.DEADLINE_PAUSED: FailureCause(
        "the subscription was paused until the message's time was over", "Resume it earlier."
    ),
    FinalCause.DEADLINE_THROTTLED: FailureCause(
        "throttled until the message's time was over", "Raise maxReceivesPerSecond."
    ),
    FinalCause.RECEIVES: FailureCause(
        "it was received maxReceiveCount times and not deleted", "Look at the log of the queue's consumer."
    ),
}
NO_POLICY = Why(
    "no policy: the queue does not allow the topic to send",
    "Add a statement to the queue's policy that allows sns.amazonaws.com sqs:SendMessage for this topic's ARN.",
)
NO_QUEUE = Why("no such queue", "Create the queue again, or delete the subscription.")
_QUEUE_CODES: Mapping[str, Why] = {"AccessDenied": NO_POLICY, "QueueDoesNotExist": NO_QUEUE}


def failure_text(cause: str | None, status: int | None) -> str:
    """The failure of an attempt: "status 503", "the endpoint did not answer in time"."""
    return f"status {status}" if status else why_failed(cause or "an unknown failure").title


def is_of_concern(cause: str) -> bool:
    """Whether a drop says that something is wrong; not if the recipient is gone or muted."""
    known = CAUSES.get(cause.rpartition(":")[2])
    return known is None or not known.expected


def why_failed(cause: str, reason: str = "") -> Why:
    """`cause` of an attempt or an outcome, such as `timeout` or `spent:status`; `reason` is the endpoint's answer."""
    prefix, _, last = cause.rpartition(":")
    known = CAUSES.get(last)
    why = Why(known.title, known.advice) if known else Why(last)
    if last == Cause.QUEUE:
        why = next((by_code for code, by_code in _QUEUE_CODES.items() if code in reason), why)
    match prefix:
        case End.SPENT:
            return Why(f"all attempts are spent: {why.title}", why.advice)
        case End.REFUSED:
            return Why(
                f"lost: {why.title}, and the dead-letter queue refused it",
                "Check the dead-letter queue and its policy.",
            )
        case End.PERMANENT if last not in (Cause.QUEUE, Cause.OPTED_OUT, Cause.NOT_VERIFIED):
            return Why(f"given up at once: {why.title}", why.advice)
        case _:
            return why
