"""The record of one attempt in a delivery status log, in AWS's form, and the log group that it belongs to."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from cns.delivery.target import Target
from cns.endpoints.outcome import RESPONSE_CHARS_MAX, Delivered, Failed, Outcome
from cns.protocols.table import find_protocol
from cns.subscriptions.endpoint_syntax import masked_endpoint
from cns_common.arn import parse_arn
from cns_common.ids import uuid_text

FAILURE_GROUP = "/Failure"
PHONE_GROUP = "DirectPublishToPhoneNumber"
NO_REQUEST = "Unrecoverable"
"""AWS logs this request id if SQS refused the message."""
NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"
_MISSING = "QueueDoesNotExist"
_DENIED = frozenset({"AccessDenied", "AccessDeniedException"})
_DENIED_STATUS = 403

_ENCODE = msgspec.json.Encoder().encode


class LoggedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt with its outcome."""

    target: Target
    outcome: Outcome
    message_id: str
    topic: str  # ARN; empty: published to the endpoint itself
    published_ms: int
    at_ms: int  # when the outcome was known
    number: int  # 1 is the first
    message_md5: str = ""  # of notifications of topics


class _Notification(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    md5_sum: str = msgspec.field(default="", name="messageMD5Sum")
    message_id: str
    topic_arn: str = ""
    timestamp: str


class _Delivery(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    delivery_id: str
    destination: str
    provider_response: str
    dwell_time_ms: int
    attempts: int = 1
    status_code: int
    redrive_policy: str = ""


class _Record(msgspec.Struct, frozen=True):
    notification: _Notification
    delivery: _Delivery
    status: str


def record_line(attempt: LoggedAttempt, *, success: bool) -> bytes:
    target, outcome = attempt.target, attempt.outcome
    delivery_id = uuid_text()
    record = _Record(
        _Notification(
            md5_sum=attempt.message_md5,
            message_id=attempt.message_id,
            topic_arn=attempt.topic,
            timestamp=log_time_text(attempt.published_ms),
        ),
        _Delivery(
            delivery_id=delivery_id,
            destination=masked_endpoint(target.endpoint),
            provider_response=_response(target.protocol, outcome, delivery_id)[:RESPONSE_CHARS_MAX],
            # as AWS counts it: from the publish to when it was handed to the endpoint
            dwell_time_ms=max(attempt.at_ms - outcome.dwell_ms - attempt.published_ms, 0),
            attempts=attempt.number,
            status_code=_status(target.protocol, outcome),
            redrive_policy=target.redrive_policy,
        ),
        "SUCCESS" if success else "FAILURE",
    )
    return _ENCODE(record) + b"\n"


def log_time_text(at_ms: int) -> str:
    seconds, milliseconds = divmod(at_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat(' ')[:19]}.{milliseconds:03d}"


def group_of_arn(arn: str) -> str:
    """The log group of a topic, or of a mobile application."""
    parsed = parse_arn(arn)
    return f"sns/{parsed.region}/{parsed.account}/{parsed.resource}" if parsed else ""


def group_of_phones(account: str, region: str) -> str:
    """The log group of messages that are published to a phone number."""
    return f"sns/{region}/{account}/{PHONE_GROUP}"


def _status(protocol: str, outcome: Outcome) -> int:
    """The status code, 0 without an answer."""
    if isinstance(outcome, Delivered):
        return find_protocol(protocol).delivered_status or outcome.status
    if outcome.status or not outcome.code:
        return outcome.status
    return _DENIED_STATUS if outcome.code in _DENIED else 400


def _response(protocol: str, outcome: Outcome, delivery_id: str) -> str:
    if isinstance(outcome, Delivered):
        return find_protocol(protocol).logged_response(outcome, delivery_id)
    if outcome.code:
        return _refusal(outcome)
    return outcome.response or outcome.text


def _refusal(failed: Failed) -> str:
    """In AWS's form, with the queue service's message: it tells a missing queue from a policy that denies."""
    text = failed.text.removeprefix(f"{failed.code}: ")
    code = NO_QUEUE if failed.code == _MISSING else failed.code
    return _ENCODE({"ErrorCode": code, "ErrorMessage": text, "sqsRequestId": NO_REQUEST}).decode()
