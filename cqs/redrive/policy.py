"""RedrivePolicy and RedriveAllowPolicy: parsed, validated, and formatted as AWS returns them."""

from __future__ import annotations

from typing import Literal

import msgspec

from cns_common.arn import parse_arn
from cns_common.errors import UNREADABLE, RequestError
from cqs.limits import POLICY_BYTES_MAX, REDRIVE_RECEIVES_MAX, REDRIVE_SOURCES_MAX
from cqs.queues.names import is_fifo

RedrivePermission = Literal["allowAll", "denyAll", "byQueue"]

_MEMBERS = msgspec.json.Decoder(dict[str, object])
_ALLOW_FORMAT = (
    "Invalid value for the parameter RedriveAllowPolicy. Reason: Amazon SQS can't create the redrive allow policy, "
    "as it\u2019s in an unsupported format."
)


class RedrivePolicy(msgspec.Struct, frozen=True):
    """The fields are in AWS's order."""

    deadLetterTargetArn: str  # noqa: N815  # the name in the JSON text
    maxReceiveCount: int  # noqa: N815  # the name in the JSON text


class RedriveAllowPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    redrivePermission: RedrivePermission  # noqa: N815  # the name in the JSON text
    sourceQueueArns: tuple[str, ...] = ()  # noqa: N815  # the name in the JSON text


def as_text(policy: RedrivePolicy | RedriveAllowPolicy) -> str:
    return msgspec.json.encode(policy).decode()


def read_redrive_policy(text: str) -> RedrivePolicy:
    members = _members(text)
    if members is None:
        raise RequestError(
            "InvalidAttributeValue",
            "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map.",
        )
    for name in ("maxReceiveCount", "deadLetterTargetArn"):
        if name not in members:
            raise refused_redrive(text, f"Redrive policy does not contain mandatory attribute: {name}.")
    return RedrivePolicy(_target(text, members["deadLetterTargetArn"]), _count(text, members["maxReceiveCount"]))


def check_redrive_target(text: str, policy: RedrivePolicy, *, account: str, region: str, fifo: bool) -> None:
    """Raise RequestError if the target's ARN does not fit the queue. Whether the target exists is not checked here."""
    arn = parse_arn(policy.deadLetterTargetArn)
    assert arn is not None
    if arn.account != account:
        raise refused_redrive(text, "Dead-letter target owner should be same as the source.")
    if arn.region != region:
        raise refused_redrive(text, "Dead-letter target must be in same region as the source.")
    if is_fifo(arn.resource) != fifo:
        raise refused_redrive(text, "Dead-letter queue must be same type of queue as the source..")


def refused_redrive(text: str, reason: str) -> RequestError:
    return RequestError(
        "InvalidParameterValue", f"Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}"
    )


def read_redrive_allow_policy(text: str) -> RedriveAllowPolicy:
    members = _members(text)
    try:
        if members is None or members.keys() - {"redrivePermission", "sourceQueueArns"}:
            raise msgspec.ValidationError
        policy = msgspec.convert(members, RedriveAllowPolicy)
    except msgspec.ValidationError:
        raise RequestError("InvalidParameterValue", _ALLOW_FORMAT) from None
    by_queue = policy.redrivePermission == "byQueue"
    if by_queue and not policy.sourceQueueArns:
        reason = (
            "When you specify the byQueue permission type, you must also specify one or more sourceQueueArns values."
        )
    elif policy.sourceQueueArns and not by_queue:
        reason = "To specify one or more source queue ARNs, you must set redrivePermission to byQueue."
    elif len(policy.sourceQueueArns) > REDRIVE_SOURCES_MAX:
        reason = f"The maximum number of source queue ARNs you can specify is {REDRIVE_SOURCES_MAX}."
    else:
        return policy
    raise _refused_allow(text, reason)


def check_redrive_sources(text: str, *, region: str) -> None:
    """Raise RequestError if a RedriveAllowPolicy names a queue of another region."""
    arns = map(parse_arn, read_redrive_allow_policy(text).sourceQueueArns)
    if any(arn is not None and arn.service == "sqs" and arn.region != region for arn in arns):
        raise _refused_allow(text, "All source queue ARNs must be in the same region as the current SQS queue.")


def _refused_allow(text: str, reason: str) -> RequestError:
    return RequestError(
        "InvalidParameterValue",
        f"Value {text} for parameter RedriveAllowPolicy is invalid. "
        f"Reason: Amazon SQS can't create the redrive allow policy. {reason}",
    )


def may_redrive(policy: RedriveAllowPolicy, source_arn: str) -> bool:
    """Whether a dead-letter queue with this policy accepts messages of the source queue."""
    if policy.redrivePermission == "byQueue":
        return source_arn in policy.sourceQueueArns
    return policy.redrivePermission == "allowAll"


def _members(text: str) -> dict[str, object] | None:
    if len(text) > POLICY_BYTES_MAX:
        return None
    try:
        return _MEMBERS.decode(text)
    except UNREADABLE:
        return None


def _target(text: str, value: object) -> str:
    arn = parse_arn(value) if isinstance(value, str) else None
    if arn is None:
        raise refused_redrive(text, "Invalid value for deadLetterTargetArn.")
    if arn.service != "sqs":
        raise refused_redrive(text, "Only SQS queues are valid resources for deadLetterTargetArn")
    return str(value)


def _count(text: str, value: object) -> int:
    """AWS accepts a number or its text."""
    count = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 9 else value
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= REDRIVE_RECEIVES_MAX:
        raise refused_redrive(
            text,
            f"Invalid value for maxReceiveCount: {value}, valid values are from 1 to {REDRIVE_RECEIVES_MAX} "
            "both inclusive.",
        )
    return count
