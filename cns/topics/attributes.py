"""Topic attributes: their names, their valid values, their defaults, and their description to callers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from cns.archives import policy as archive_policy
from cns.delivery.delivery_policy import effective_topic_policy, policy_text
from cns.delivery.delivery_policy_parser import parse_topic_policy
from cns.errors import AT_CREATION, invalid_parameter
from cns.limits import (
    DISPLAY_NAME_CHARS_MAX,
    FIFO_SUFFIX,
    KEY_CHARS_MAX,
    MESSAGE_BYTES_DEFAULT,
    MESSAGE_BYTES_MAX,
    MESSAGE_BYTES_MIN,
    SAMPLE_RATE_MAX,
    TOPIC_NAME_CHARS_MAX,
)
from cns.protocols.table import PROTOCOLS
from cns.subscriptions.subscription import SubscriptionCounts
from cns.topics.policy import default_policy_text, policy_to_store
from cns.topics.topic import Topic
from cns_common.arn import parse_arn
from cns_common.errors import RequestError

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_NOT_IN_DISPLAY_NAME = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")  # it becomes a mail header
_FEEDBACK_PREFIXES = {protocol.feedback_prefix for protocol in PROTOCOLS.values()} - {""}
_FEEDBACK_ROLES = frozenset(
    f"{prefix}{outcome}FeedbackRoleArn" for prefix in _FEEDBACK_PREFIXES for outcome in ("Success", "Failure")
)
_FEEDBACK_RATES = frozenset(f"{prefix}SuccessFeedbackSampleRate" for prefix in _FEEDBACK_PREFIXES)
SIGN_QUEUE_ENVELOPES = "SignQueueEnvelopes"
"""Beyond SNS's: "false" leaves out the signature of what queues get. HTTP endpoints always get one."""
_BOOLEANS = ("true", "false")
_SCOPES = ("Topic", "MessageGroup")
_CHOICES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "SignatureVersion": (("1", "2"), "SignatureVersion: Invalid value. Must be 1 or 2."),
    "TracingConfig": (("PassThrough", "Active"), "Invalid tracing config value: {}"),
    "FifoThroughputScope": (_SCOPES, "Invalid FifoThroughputScope: {}"),
}
"""The valid values of an attribute, and the text that refuses any other."""
_DEFAULTS: Mapping[str, str] = {
    "DisplayName": "",
    "SignatureVersion": "1",
    "TracingConfig": "PassThrough",
    "MaximumMessageSize": str(MESSAGE_BYTES_DEFAULT),
}
_SHOWN_FIRST = (
    *("Policy", "SignatureVersion", "Owner", "SubscriptionsPending", "KmsMasterKeyId", "TopicArn", "TracingConfig"),
    *("EffectiveDeliveryPolicy", "SubscriptionsConfirmed", "FifoTopic", "BeginningArchiveTime", "DisplayName"),
    *("ContentBasedDeduplication", "DeliveryPolicy", "SubscriptionsDeleted", "ArchivePolicy"),
)
"""In AWS's order."""
_NO_ARCHIVE: Mapping[str, str] = {}

_Check = Callable[[str, str, str], str]  # name, value, prefix of errors → the value to store ('': none)


def check_name(name: str, given: Mapping[str, str]) -> None:
    """The name must be valid, and end with .fifo if and only if the attribute FifoTopic is true."""
    fifo = given.get("FifoTopic", "").lower() == "true"
    stem = name.removesuffix(FIFO_SUFFIX) if fifo else name
    if not (_NAME.fullmatch(stem) and len(name) <= TOPIC_NAME_CHARS_MAX and fifo == name.endswith(FIFO_SUFFIX)):
        raise invalid_parameter("Topic Name")


def check_new(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Check the attributes of a new topic. Return the values to store; '' stands for none."""
    fifo = name.endswith(FIFO_SUFFIX)
    return {each: _check(each, text, AT_CREATION, fifo=fifo) for each, text in given.items()}


def check_change(topic: Topic, name: str, text: str) -> dict[str, str]:
    """Check a new value of an attribute. Return the value to store; '' stands for removal."""
    stored = _check(name, text, "", fifo=topic.fifo)
    if name == "FifoThroughputScope" and topic.attributes.get(name) == _SCOPES[-1] != stored:
        raise invalid_parameter(f"Modifying {name} from {_SCOPES[-1]} to {stored} is not supported")
    return {name: stored}


def initial_attributes(name: str) -> dict[str, str]:
    """The attributes of a new topic: a FIFO topic has explicit values from the start."""
    return {"FifoTopic": "true", "ContentBasedDeduplication": "false"} if name.endswith(FIFO_SUFFIX) else {}


def merge(current: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """The attributes after the changes. '' removes an attribute."""
    return {name: text for name, text in {**current, **changes}.items() if text}


def differs(topic: Topic, wanted: Mapping[str, str]) -> bool:
    """Whether the topic's value of any of these attributes, in stored form, is another one."""
    return any(not _same(name, _value(topic, name), text) for name, text in wanted.items())


def describe(topic: Topic, counts: SubscriptionCounts, archive: Mapping[str, str] = _NO_ARCHIVE) -> dict[str, str]:
    """The attributes that GetTopicAttributes shows, in AWS's order. Those with a default appear once they were set.

    `archive` has what the topic's archive adds.
    """
    own = topic.attributes
    described = {
        "DisplayName": "",
        **own,
        **archive,
        "Policy": own.get("Policy") or default_policy_text(topic),
        "Owner": topic.account,
        "TopicArn": topic.arn,
        "EffectiveDeliveryPolicy": policy_text(effective_topic_policy(own.get("DeliveryPolicy"))),
        "SubscriptionsPending": str(counts.pending),
        "SubscriptionsConfirmed": str(counts.confirmed),
        "SubscriptionsDeleted": str(counts.removed),
    }
    return {name: described[name] for name in _SHOWN_FIRST if name in described} | described


def message_bytes_max(topic: Topic) -> int:
    return int(topic.attributes.get("MaximumMessageSize", MESSAGE_BYTES_DEFAULT))


def signature_version(topic: Topic) -> str:
    return topic.attributes.get("SignatureVersion", _DEFAULTS["SignatureVersion"])


def _value(topic: Topic, name: str) -> str:
    if name == "Policy":
        return topic.attributes.get(name) or default_policy_text(topic)
    return topic.attributes.get(name, _DEFAULTS.get(name, ""))


def _same(name: str, own: str, wanted: str) -> bool:
    """Delivery policies are equal if they have the same effect: earlier versions stored them with all defaults."""
    if own != wanted and name == "DeliveryPolicy" and own and wanted:
        return effective_topic_policy(own) == effective_topic_policy(wanted)
    return own == wanted


def _check(name: str, text: str, prefix: str, *, fifo: bool) -> str:
    check = _CHECKS.get(name)
    if check is None and name in _FIFO_CHECKS:
        check = _FIFO_CHECKS[name] if fifo else _refuse_on_standard
    if check is None:  # unknown, or read-only
        raise _unknown(name, prefix)
    return check(name, text, prefix)


def _display_name(name: str, text: str, prefix: str) -> str:
    if len(text) > DISPLAY_NAME_CHARS_MAX or _NOT_IN_DISPLAY_NAME.search(text):
        raise invalid_parameter(f"{prefix}{name}")
    return text


def _policy(_name: str, text: str, prefix: str) -> str:
    return policy_to_store(text, prefix)


def _delivery_policy(_name: str, text: str, prefix: str) -> str:
    policy = parse_topic_policy(text, prefix)
    return "" if policy is None else policy_text(policy)


def _archive(_name: str, text: str, prefix: str) -> str:
    return archive_policy.policy_to_store(text, prefix)


def _unknown(name: str, prefix: str) -> RequestError:
    return invalid_parameter(f"{prefix}Unknown attribute {name}" if prefix else "AttributeName")


def _choice(name: str, text: str, prefix: str) -> str:
    choices, refusal = _CHOICES[name]
    if text not in choices:
        raise invalid_parameter(prefix + refusal.format(text))
    return text


def _boolean(name: str, text: str, prefix: str) -> str:
    if text.lower() not in _BOOLEANS:
        raise invalid_parameter(f"{prefix}{name}: Invalid value [{text}]. Must be true or false.")
    return text.lower()


def _fifo_topic(name: str, text: str, prefix: str) -> str:
    """The kind of a topic cannot be changed."""
    if _boolean(name, text, prefix) == "false":
        raise invalid_parameter(f"{prefix}{name}: Modifying topic type is not supported")
    return text.lower()


def _refuse_on_standard(name: str, text: str, prefix: str) -> str:
    """Refuse an attribute of FIFO topics, unless it is given as false when the topic is created."""
    if prefix and text.lower() == "false":
        return ""
    raise _unknown(name, prefix)


def _key(name: str, text: str, prefix: str) -> str:
    """Store the key id as given: the service has no keys, and AWS checks the key only when it publishes."""
    if len(text) > KEY_CHARS_MAX or not text.isprintable():
        raise invalid_parameter(f"{prefix}{name}")
    return text


def _message_bytes(name: str, text: str, prefix: str) -> str:
    if text and _whole(text, MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX) is None:
        raise invalid_parameter(
            f"{prefix}{name}: {text} value provided is not an integer between {MESSAGE_BYTES_MIN}-{MESSAGE_BYTES_MAX}"
        )
    return text


def _role(name: str, text: str, prefix: str) -> str:
    arn = parse_arn(text)
    if text and (arn is None or arn.service != "iam" or not arn.resource.startswith("role/") or not text.isprintable()):
        raise invalid_parameter(f"{prefix}{name}")
    return text


def _rate(name: str, text: str, prefix: str) -> str:
    if text and _whole(text, 0, SAMPLE_RATE_MAX) is None:
        raise invalid_parameter(f"{prefix}{name}: {text} value provided is not an integer between 0-{SAMPLE_RATE_MAX}")
    return text


def _whole(text: str, least: int, most: int) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most))):
        return None
    return int(text) if least <= int(text) <= most else None


_CHECKS: Mapping[str, _Check] = {
    "DisplayName": _display_name,
    "Policy": _policy,
    "DeliveryPolicy": _delivery_policy,
    "SignatureVersion": _choice,
    "TracingConfig": _choice,
    "KmsMasterKeyId": _key,
    "MaximumMessageSize": _message_bytes,
    "ArchivePolicy": _archive,
    SIGN_QUEUE_ENVELOPES: _boolean,
    **dict.fromkeys(_FEEDBACK_ROLES, _role),
    **dict.fromkeys(_FEEDBACK_RATES, _rate),
}

_FIFO_CHECKS: Mapping[str, _Check] = {
    "FifoTopic": _fifo_topic,
    "ContentBasedDeduplication": _boolean,
    "FifoThroughputScope": _choice,
}
"""The checks of attributes that only FIFO topics have."""
