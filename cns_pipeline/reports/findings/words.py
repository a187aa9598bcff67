"""Causes of failures in words. The full list is in docs/operations.md."""

from __future__ import annotations

from collections.abc import Mapping

from cns_pipeline.reports.text import count, short_arn

_CAUSES: Mapping[str, str] = {
    "deadline_while_open": "their time ended while the endpoint's circuit breaker was open",
    "deadline_while_waiting": "their time ended while they waited for room at the endpoint, which was slow or hung",
    "deadline_while_paused": "their subscription was paused until their time ended",
    "deadline_while_throttled": "their time ended while the throttle policy held them back",
    "subscription_gone": "their subscription is gone",
    "invalid_attributes": "an attribute that a filter policy uses is malformed",
    "notification_lost": "the message no longer existed",
}
_PREFIXES: Mapping[str, str] = {
    "spent": "all retries failed",
    "permanent": "no retry could succeed",
    "dead_letter_queue_refused": "the dead-letter queue refused them",
}
_KINDS: Mapping[str, str] = {
    "status": "an error status",
    "timeout": "no answer in time",
    "connection": "no connection",
    "tls": "a TLS error",
    "dns": "a name that does not resolve",
    "queue": "a queue that is missing or denies",
    "mail_refused": "a relay that refuses the mail",
    "mail_relay": "a relay that refuses this service",
}


def cause_in_words(cause: str) -> str:
    """`spent:status` as "all retries failed: an error status"; an unknown cause as it is."""
    if cause in _CAUSES:
        return _CAUSES[cause]
    prefix, _, kind = cause.partition(":")
    if prefix in _PREFIXES:
        return f"{_PREFIXES[prefix]}: {kind_in_words(kind)}" if kind else _PREFIXES[prefix]
    return cause


def mostly(most: int, number: int, topic: str, endpoint: str) -> str:
    """The end of a sentence about `number` things: which topic and endpoint have the most of them."""
    target = " → ".join([short_arn(name) for name in (topic, endpoint) if name])
    if not target or not most:
        return ""
    return f"; {'all' if most == number else count(most)} of {target}"


def kind_in_words(kind: str) -> str:
    """`timeout` as "no answer in time"; an unknown kind as it is."""
    return _KINDS.get(kind, kind)


def failure_in_words(cause: str | None, status: int | None) -> str:
    """The failure of an attempt: "status 503", "no answer in time"."""
    return f"status {status}" if status else kind_in_words(cause or "an unknown failure")
