"""Subscription attributes: their names, their valid values, and their description to callers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from cns.archives.replay_policy import parse_replay_policy
from cns.arns import parse_queue_arn
from cns.delivery.delivery_policy import effective_subscription_policy, policy_text
from cns.delivery.delivery_policy_parser import parse_subscription_policy
from cns.errors import AT_CREATION, invalid_parameter
from cns.filters.limits import DEFAULT_LIMITS, FilterLimits
from cns.filters.model import Scope
from cns.filters.parser import read_filter
from cns.json_errors import NotJsonError, decode_json
from cns.limits import FIFO_SUFFIX
from cns.protocols.table import find_protocol
from cns.subscriptions.endpoint_syntax import account_of, masked_endpoint
from cns.subscriptions.subscription import PAUSED, RESUMED_AT, Subscription, SubscriptionState
from cns_common.arn import Arn, parse_arn
from cns_common.aws.call import Call
from cns_common.errors import RequestError

RAW = "RawMessageDelivery"
FILTER = "FilterPolicy"
SCOPE = "FilterPolicyScope"
ROLE = "SubscriptionRoleArn"

_BOOLEANS = ("true", "false")
_ROLE_ARN = re.compile(r"arn:aws:iam::[0-9]{12}:role/[!-~]{1,512}")
_DEFAULTS: Mapping[str, str] = {RAW: "false", SCOPE: Scope.ATTRIBUTES.value}
_CHECKED_FIRST = (RAW, SCOPE)
"""The checks of other attributes depend on these."""
_NO_FILTER = ("", "{}")

_Check = Callable[[Subscription, str, str, str], str]
"""Subscription, name, value and prefix of errors → the value to store ('': none)."""


_DEAD_LETTERS = "deadLetterTargetArn"
_read_json = msgspec.json.Decoder().decode


def check_new(
    subscription: Subscription, given: Mapping[str, str], limits: FilterLimits = DEFAULT_LIMITS
) -> dict[str, str]:
    """Check the attributes of a new subscription. Return the values to store; '' stands for none."""
    checked: dict[str, str] = {}
    for name in sorted(given, key=lambda name: name not in _CHECKED_FIRST):
        so_far = msgspec.structs.replace(subscription, attributes=checked)
        checked[name] = _check(so_far, name, given[name], AT_CREATION, limits)
    return checked


def check_change(
    subscription: Subscription, name: str, text: str, limits: FilterLimits = DEFAULT_LIMITS
) -> dict[str, str]:
    """Check a new value of an attribute. Return the value to store; '' stands for removal."""
    return {name: _check(subscription, name, text, "", limits)}


def with_resumption(subscription: Subscription, changes: Mapping[str, str], now_ms: int) -> dict[str, str]:
    """The changes, and the time at which a pause ends by them: from then on the retry policy's time runs."""
    resumes = subscription.paused and PAUSED in changes and not changes[PAUSED]
    return {**changes, RESUMED_AT: str(now_ms)} if resumes else dict(changes)


def merge(current: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """The attributes after the changes. '' removes an attribute."""
    return {name: text for name, text in {**current, **changes}.items() if text}


def differs(subscription: Subscription, wanted: Mapping[str, str]) -> bool:
    """Whether the subscription's value of any of these attributes, in stored form, is another one."""
    own = subscription.attributes
    return any(own.get(name, _DEFAULTS.get(name, "")) != text for name, text in wanted.items())


def describe(subscription: Subscription, topic_delivery_policy: str | None) -> dict[str, str]:
    """The attributes that GetSubscriptionAttributes shows, in AWS's order."""
    own = subscription.attributes
    described = {
        "SubscriptionPrincipal": subscription.principal,
        "Owner": subscription.owner,
        RAW: own.get(RAW, _DEFAULTS[RAW]),
    }
    if FILTER in own:
        described[FILTER] = own[FILTER]
    described |= {"TopicArn": subscription.topic_arn, "Endpoint": masked_endpoint(subscription.endpoint)}
    if find_protocol(subscription.protocol).web:
        effective = effective_subscription_policy(topic_delivery_policy, own.get("DeliveryPolicy"))
        described["EffectiveDeliveryPolicy"] = policy_text(effective)
    described |= {name: own[name] for name in ("DeliveryPolicy", "RedrivePolicy", ROLE, PAUSED) if name in own}
    if FILTER in own:
        described[SCOPE] = subscription.filter_scope
    return described | {
        "Protocol": subscription.protocol,
        "PendingConfirmation": _boolean(subscription.state is SubscriptionState.PENDING),
        "ConfirmationWasAuthenticated": _boolean(subscription.authenticated),
        "SubscriptionArn": subscription.arn,
    }


def check_firehose_role(call: Call, subscription: Subscription) -> None:
    """Only the owner of a Firehose stream may subscribe it, with a role of the owner's account.

    The order is AWS's: owner of the role, owner of the stream, presence of a role.
    """
    if not find_protocol(subscription.protocol).needs_role:
        return
    text = subscription.attributes.get(ROLE, "")
    if call.policies_enforced:
        role = parse_arn(text)
        if role is not None and role.account != subscription.owner:
            raise RequestError("AuthorizationError", "Cross-account pass role is not allowed.")
        if account_of(subscription.protocol, subscription.endpoint) != subscription.owner:
            raise RequestError(
                "AuthorizationError",
                f"The account {subscription.owner} is not the owner of the endpoint {subscription.endpoint}",
            )
    if not text:
        raise invalid_parameter("Delivery protocol firehose can only be subscribed with subscription role arn")


def _check(subscription: Subscription, name: str, text: str, prefix: str, limits: FilterLimits) -> str:
    if name == FILTER:
        return _filter(text, Scope(subscription.filter_scope), prefix, limits)
    if name == SCOPE:
        return _scope(subscription, text, prefix, limits)
    check = _CHECKS.get(name)
    if check is None:  # unknown, or read-only
        raise invalid_parameter(f"{prefix}AttributeName")
    return check(subscription, name, text, prefix)


def _raw(subscription: Subscription, name: str, text: str, prefix: str) -> str:
    if text.lower() not in _BOOLEANS:
        raise invalid_parameter(f"{prefix}{name}: Invalid value [{text}]. Must be true or false.")
    if text.lower() == "true" and not find_protocol(subscription.protocol).takes_raw:
        raise invalid_parameter(
            f"{prefix}Delivery protocol [{subscription.protocol}] does not support raw message delivery."
        )
    return text.lower()


def _paused(_subscription: Subscription, name: str, text: str, prefix: str) -> str:
    if text.lower() not in _BOOLEANS:
        raise invalid_parameter(f"{prefix}{name}: Invalid value [{text}]. Must be true or false.")
    return "true" if text.lower() == "true" else ""


def _redrive(subscription: Subscription, name: str, text: str, prefix: str) -> str:
    if not text:
        return ""
    try:
        policy = decode_json(text, _read_json)
    except NotJsonError as error:
        raise invalid_parameter(f"{prefix}{name}: {error}") from None
    members = policy if isinstance(policy, dict) else {}
    unknown = next((member for member in members if member != _DEAD_LETTERS), None)
    if unknown is not None:
        raise invalid_parameter(f"{prefix}{name}: invalid JSON. Attribute {unknown} is unknown.")
    if _DEAD_LETTERS not in members:
        raise invalid_parameter(f"{prefix}{name}: Missing {_DEAD_LETTERS} attribute")
    queue = _dead_letter_queue(subscription, members[_DEAD_LETTERS], f"{prefix}{name}: {_DEAD_LETTERS}")
    if subscription.topic_arn.endswith(FIFO_SUFFIX):
        _check_kind(subscription, queue, f"{prefix}{name}")
    return msgspec.json.encode({_DEAD_LETTERS: str(queue)}).decode()


def _dead_letter_queue(subscription: Subscription, target: object, where: str) -> Arn:
    arn = parse_arn(target) if isinstance(target, str) else None
    if arn is not None and arn.service != "sqs":
        raise invalid_parameter(f"{where} must be a SQS queue")
    if arn is not None and arn.region != subscription.region:
        raise invalid_parameter(f"{where} must be in the same region as the subscription")
    queue = None if arn is None else parse_queue_arn(str(arn))
    if queue is None or queue.account != subscription.owner:
        raise invalid_parameter(f"{where} is an invalid arn")
    return queue


def _check_kind(subscription: Subscription, dead_letters: Arn, where: str) -> None:
    """The dead-letter queue of a FIFO topic's subscription must be of the queue's own kind, FIFO or standard."""
    fifo, dead_fifo = (arn.endswith(FIFO_SUFFIX) for arn in (subscription.endpoint, dead_letters.resource))
    if fifo and not dead_fifo:
        raise invalid_parameter(f"{where}: must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic.")
    if dead_fifo and not fifo:
        raise invalid_parameter(
            f"{where}: must use a Standard queue as DLQ for a Standard Subscription to a FIFO Topic."
        )


def _delivery(subscription: Subscription, name: str, text: str, prefix: str) -> str:
    if not find_protocol(subscription.protocol).web:
        raise invalid_parameter(f"{prefix}{name}: can only be set for HTTP and HTTPS subscriptions")
    policy = parse_subscription_policy(text, raw=subscription.raw, prefix=prefix)
    return "" if policy is None else policy_text(policy)


def _role(_subscription: Subscription, name: str, text: str, prefix: str) -> str:
    if text and not _ROLE_ARN.fullmatch(text):
        raise invalid_parameter(f"{prefix}{name}: {text} is not a valid role to be assumed by SNS")
    return text


def _replay(_subscription: Subscription, _name: str, text: str, prefix: str) -> str:
    window = parse_replay_policy(text, prefix)
    return "" if window is None else window.text


def _filter(text: str, scope: Scope, prefix: str, limits: FilterLimits) -> str:
    if "".join(text.split()) in _NO_FILTER:
        return ""
    stored, _ = read_filter(text, scope, prefix, limits)
    return stored


def _scope(subscription: Subscription, text: str, prefix: str, limits: FilterLimits) -> str:
    """Check the scope. The subscription's own policy must be valid in it, too."""
    if text not in tuple(Scope):
        raise invalid_parameter(
            f"{prefix}{SCOPE}: Invalid value [{text}]. Please use either {Scope.BODY} or {Scope.ATTRIBUTES}"
        )
    if subscription.filter_policy:
        read_filter(subscription.filter_policy, Scope(text), prefix, limits)
    return text


def _boolean(value: bool) -> str:
    return "true" if value else "false"


_CHECKS: Mapping[str, _Check] = {
    RAW: _raw,
    ROLE: _role,
    "RedrivePolicy": _redrive,
    "DeliveryPolicy": _delivery,
    "ReplayPolicy": _replay,
    PAUSED: _paused,
}
