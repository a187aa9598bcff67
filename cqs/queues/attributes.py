"""Queue attributes: their names, values and defaults."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from cns_common.errors import RequestError
from cqs import limits
from cqs.engines.contract import Counts
from cqs.engines.options import EngineOption
from cqs.queues.model import Queue
from cqs.queues.policies import check_actions, read_policy
from cqs.redrive.policy import as_text, read_redrive_allow_policy, read_redrive_policy

KEY_ID_CHARS_MAX = 2_048
ENGINE = "Engine"
"""An extension: the name of the queue's engine, set at creation."""
REQUIRES = "Requires"
"""An extension: capabilities that the queue's engine must have, of those that an engine may lack."""
_CAPABILITIES = ("exact-counts", "fair")

AUDIT = "Audit"
"""An extension: whether what happens to the queue's messages is written as events, none of which is lost."""

_NUMBERS: Mapping[str, tuple[int, int]] = {
    "DelaySeconds": (0, limits.DELAY_S_MAX),
    "KmsDataKeyReusePeriodSeconds": (limits.KMS_REUSE_S_MIN, limits.KMS_REUSE_S_MAX),
    "MaximumMessageSize": (limits.MESSAGE_BYTES_MIN, limits.MESSAGE_BYTES_MAX),
    "MessageRetentionPeriod": (limits.RETENTION_S_MIN, limits.RETENTION_S_MAX),
    "ReceiveMessageWaitTimeSeconds": (0, limits.RECEIVE_WAIT_S_MAX),
    "VisibilityTimeout": (0, limits.VISIBILITY_S_MAX),
}
_BOOLEANS = ("true", "false")
_OFF = "off"
"""This value of `AUDIT` is not stored: a queue without the attribute has it."""
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "SqsManagedSseEnabled": _BOOLEANS,
    "FifoQueue": _BOOLEANS,
    "ContentBasedDeduplication": _BOOLEANS,
    "DeduplicationScope": ("queue", "messageGroup"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
    AUDIT: ("on", _OFF),
}
_DEFAULTS: Mapping[str, str] = {
    "DelaySeconds": "0",
    "MaximumMessageSize": str(limits.MESSAGE_BYTES_MAX),
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "VisibilityTimeout": "30",
    "SqsManagedSseEnabled": "true",
}
_FIFO_DEFAULTS: Mapping[str, str] = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}
_KMS_DEFAULTS: Mapping[str, str] = {"KmsDataKeyReusePeriodSeconds": "300"}
_COUNTS = frozenset(
    {
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    }
)
READ_ONLY = _COUNTS | {"QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"}


def unknown_attribute(name: str) -> RequestError:
    return RequestError("InvalidAttributeName", f"Unknown Attribute {name}.")


def invalid_value(name: str) -> RequestError:
    return RequestError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")


def refused_value(name: str, reason: str) -> RequestError:
    return RequestError("InvalidAttributeValue", f"Invalid value for the parameter {name}. Reason: {reason}")


# -- texts ------------------------------------------------------------------------------------------------------------


def _key_id(text: str) -> str:
    """An id, ARN or alias of a KMS key. It is not looked up."""
    if not (text.isascii() and text.isprintable() and len(text) <= KEY_ID_CHARS_MAX):
        raise invalid_value("KmsMasterKeyId")
    return text


def _policy(text: str) -> str:
    check_actions(read_policy(text))
    try:
        msgspec.json.decode(text)  # as AddPermission reads it: no lone surrogate, no number like 1e999
    except msgspec.DecodeError:
        raise invalid_value("Policy") from None
    return text


def _required(text: str) -> str:
    names = {name.strip() for name in text.split(",")}
    if not names <= {*_CAPABILITIES}:
        raise refused_value(REQUIRES, f"It names some of {', '.join(_CAPABILITIES)}, separated by commas.")
    return ",".join(sorted(names))


_REMOVABLE: Mapping[str, Callable[[str], str]] = {
    "Policy": _policy,
    "RedrivePolicy": lambda text: as_text(read_redrive_policy(text)),
    "RedriveAllowPolicy": lambda text: as_text(read_redrive_allow_policy(text)),
    "KmsMasterKeyId": _key_id,
    REQUIRES: _required,
}
"""An empty value removes these."""
_READABLE = READ_ONLY | _NUMBERS.keys() | _CHOICES.keys() | _REMOVABLE.keys() | {ENGINE}


# -- given attributes -------------------------------------------------------------------------------------------------


def wants_fifo(given: Mapping[str, str]) -> bool:
    return given.get("FifoQueue", "").lower() == "true"


def check_new(given: Mapping[str, str], *, fifo: bool) -> dict[str, str]:
    """The attributes of a new queue, validated and normalised, without those of its engine."""
    return _check(given, fifo=fifo)


def check_changes(given: Mapping[str, str], *, fifo: bool) -> dict[str, str]:
    """The changes of SetQueueAttributes, validated and normalised; '' removes an attribute."""
    changes = _check(given, fifo=fifo)
    if fifo and changes.get("FifoQueue") == "false":
        raise refused_value("FifoQueue", "Modifying queue type is not supported.")
    return changes


def required_of(attributes: Mapping[str, str]) -> list[str]:
    """The capabilities that the queue requires of its engine."""
    return [name for name in attributes.get(REQUIRES, "").split(",") if name]


def merge_changes(current: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """The attributes after the changes."""
    after = {**current, **changes}
    if changes.get("KmsMasterKeyId"):
        after["SqsManagedSseEnabled"] = "false"
    elif changes.get("SqsManagedSseEnabled") == "true":
        after["KmsMasterKeyId"] = ""
    per_group = after.get("FifoThroughputLimit") == "perMessageGroupId"
    if per_group and after.get("DeduplicationScope") != "messageGroup":
        raise refused_value(
            "FifoThroughputLimit",
            "To set FifoThroughputLimit to perMessageGroupId, the DeduplicationScope must be messageGroup.",
        )
    return {name: text for name, text in after.items() if text}


def _check(given: Mapping[str, str], *, fifo: bool) -> dict[str, str]:
    checked = {name: _check_one(name, text, fifo=fifo) for name, text in given.items()}
    if checked.get("KmsMasterKeyId") and checked.get("SqsManagedSseEnabled") == "true":
        raise RequestError(
            "InvalidAttributeName",
            "You can use one type of server-side encryption (SSE) at one time. "
            "You can either enable KMS SSE or SQS SSE.",
        )
    return checked


def _check_one(name: str, text: str, *, fifo: bool) -> str:
    if name in _FIFO_DEFAULTS and not fifo:
        if name in ("DeduplicationScope", "FifoThroughputLimit"):
            raise RequestError(
                "InvalidAttributeName", f"You can specify the {name} only when FifoQueue is set to true."
            )
        raise unknown_attribute(name)
    if name in _NUMBERS:
        return _number(name, text, *_NUMBERS[name])
    if name in _CHOICES:
        return _choice(name, text, _CHOICES[name])
    if name not in _REMOVABLE:
        raise unknown_attribute(name)
    if not text:
        return ""
    return _REMOVABLE[name](text)


def _number(name: str, text: str, least: int, most: int) -> str:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and least <= int(text) <= most):
        raise invalid_value(name)
    return str(int(text))


def _choice(name: str, text: str, choices: tuple[str, ...]) -> str:
    choice = text.lower() if choices is _BOOLEANS else text
    if choice not in choices:
        raise invalid_value(name)
    return "" if choice == _OFF else choice


# -- stored attributes ------------------------------------------------------------------------------------------------


def settings_of(queue: Queue) -> dict[str, str]:
    """All settable attributes that have a value, set or default."""
    defaults = {**_DEFAULTS, **_FIFO_DEFAULTS} if queue.fifo else _DEFAULTS
    kms = _KMS_DEFAULTS if "KmsMasterKeyId" in queue.attributes else {}
    return {**defaults, **kms, **queue.attributes}


def _visible_settings(queue: Queue) -> dict[str, str]:
    """The settings in the response of GetQueueAttributes. AWS shows those of KMS only if the queue has a key."""
    settings = settings_of(queue)
    if "KmsMasterKeyId" not in queue.attributes:
        for name in _KMS_DEFAULTS:
            settings.pop(name, None)
    return settings


def first_difference(queue: Queue, wanted: Mapping[str, str]) -> str | None:
    """The name of an attribute whose value differs from `wanted` (normalised); None if there is none."""
    settings = settings_of(queue)
    return next((name for name, text in wanted.items() if settings.get(name, "") != text), None)


def wants_counts(names: Collection[str]) -> bool:
    return "All" in names or not _COUNTS.isdisjoint(names)


def describe(
    queue: Queue, names: Collection[str], counts: Counts, options: Mapping[str, EngineOption]
) -> dict[str, str]:
    """The response of GetQueueAttributes. Raises RequestError for unknown names; omits attributes that the queue
    lacks. `All` has the engine and its options if CreateQueue named the engine, or options are stored; else it is as in
    SQS."""
    for name in names:
        if name != "All" and name not in _READABLE and name not in options:
            raise unknown_attribute(name)
    of_engine = {ENGINE: queue.engine, **{name: option.default for name, option in options.items()}, **queue.options}
    known = {
        "QueueArn": queue.arn,
        "ApproximateNumberOfMessages": str(counts.visible),
        "ApproximateNumberOfMessagesNotVisible": str(counts.in_flight),
        "ApproximateNumberOfMessagesDelayed": str(counts.delayed),
        "CreatedTimestamp": str(queue.created_ms // 1000),
        "LastModifiedTimestamp": str(queue.modified_ms // 1000),
        **_visible_settings(queue),
    }
    if "All" in names:
        return known | of_engine if ENGINE in queue.attributes or queue.options else known
    known |= of_engine
    known.setdefault(AUDIT, _OFF)
    return {name: known[name] for name in names if name in known}
