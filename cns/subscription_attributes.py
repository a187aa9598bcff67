"""Subscription attributes: which exist, what values they take, and what a subscription shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from cns.arns import parse_queue_arn
from cns.delivery_policy import effective_subscription_policy, policy_text
from cns.delivery_policy_form import parse_subscription_policy
from cns.endpoint_syntax import shown
from cns.refusals import AT_CREATION, invalid
from cns.subscription import HTTP_PROTOCOLS, State, Subscription

RAW = "RawMessageDelivery"

_BOOLEANS = ("true", "false")
_DEFAULTS: Mapping[str, str] = {RAW: "false"}
_NO_FILTER = ("", "{}")

_Check = Callable[[Subscription, str, str, str], str]
"""Subscription, name, value and prefix of complaints → what is stored ('': removed)."""


class RedrivePolicy(msgspec.Struct, frozen=True):
    deadLetterTargetArn: str  # noqa: N815  # the API's name


_redrive_policy = msgspec.json.Decoder(RedrivePolicy).decode


def check_new(subscription: Subscription, given: Mapping[str, str]) -> dict[str, str]:
    """The attributes of a subscription to be made, as they are stored; '' stands for none."""
    checked: dict[str, str] = {}
    for name in sorted(given, key=lambda name: name != RAW):  # a content type is judged by it
        so_far = msgspec.structs.replace(subscription, attributes=checked)
        checked[name] = _check(so_far, name, given[name], AT_CREATION)
    return checked


def check_change(subscription: Subscription, name: str, text: str) -> dict[str, str]:
    """An attribute to be set on a subscription, as it is stored; '' stands for removal."""
    return {name: _check(subscription, name, text, "")}


def merged(current: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """The attributes as they are after the changes."""
    return {name: text for name, text in {**current, **changes}.items() if text}


def differs(subscription: Subscription, wanted: Mapping[str, str]) -> bool:
    """Whether the subscription has another value for any of these (stored) attributes."""
    own = subscription.attributes
    return any(own.get(name, _DEFAULTS.get(name, "")) != text for name, text in wanted.items())


def describe(subscription: Subscription, topic_delivery_policy: str | None) -> dict[str, str]:
    """What GetSubscriptionAttributes shows, in AWS's order."""
    own = subscription.attributes
    described = {
        "SubscriptionPrincipal": subscription.principal,
        "Owner": subscription.owner,
        RAW: own.get(RAW, _DEFAULTS[RAW]),
        "TopicArn": subscription.topic_arn,
        "Endpoint": shown(subscription.endpoint),
    }
    if subscription.protocol in HTTP_PROTOCOLS:
        effective = effective_subscription_policy(topic_delivery_policy, own.get("DeliveryPolicy"))
        described["EffectiveDeliveryPolicy"] = policy_text(effective)
    described |= {name: own[name] for name in ("DeliveryPolicy", "RedrivePolicy") if name in own}
    return described | {
        "Protocol": subscription.protocol,
        "PendingConfirmation": _boolean(subscription.state is State.PENDING),
        "ConfirmationWasAuthenticated": _boolean(subscription.authenticated),
        "SubscriptionArn": subscription.arn,
    }


def _check(subscription: Subscription, name: str, text: str, prefix: str) -> str:
    check = _CHECKS.get(name)
    if check is None:  # unknown, or read-only
        raise invalid(f"{prefix}AttributeName")
    return check(subscription, name, text, prefix)


def _raw(_subscription: Subscription, name: str, text: str, prefix: str) -> str:
    if text.lower() not in _BOOLEANS:
        raise invalid(f"{prefix}{name}: Invalid value [{text}]. Must be true or false.")
    return text.lower()


def _redrive(subscription: Subscription, name: str, text: str, prefix: str) -> str:
    if not text:
        return ""
    try:
        policy = _redrive_policy(text.encode())
    except msgspec.ValidationError:
        raise invalid(f"{prefix}{name}: deadLetterTargetArn is an invalid arn") from None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise invalid(f"{prefix}{name}: failed to parse JSON.") from None
    queue = parse_queue_arn(policy.deadLetterTargetArn)
    if queue is None or (queue.region, queue.account) != (subscription.region, subscription.owner):
        raise invalid(f"{prefix}{name}: deadLetterTargetArn is an invalid arn")
    return msgspec.json.encode(policy).decode()


def _delivery(subscription: Subscription, name: str, text: str, prefix: str) -> str:
    if subscription.protocol not in HTTP_PROTOCOLS:
        raise invalid(f"{prefix}{name}: can only be set for HTTP and HTTPS subscriptions")
    policy = parse_subscription_policy(text, raw=subscription.raw, prefix=prefix)
    return "" if policy is None else policy_text(policy)


def _no_filter(_subscription: Subscription, name: str, text: str, prefix: str) -> str:
    """A filter that was taken and not applied would deliver what nobody asked for."""
    if text not in _NO_FILTER:
        raise invalid(f"{prefix}{name}: not supported yet")
    return ""


def _boolean(value: bool) -> str:
    return "true" if value else "false"


_CHECKS: Mapping[str, _Check] = {
    RAW: _raw,
    "RedrivePolicy": _redrive,
    "DeliveryPolicy": _delivery,
    "FilterPolicy": _no_filter,
    "FilterPolicyScope": _no_filter,
    "ReplayPolicy": _no_filter,
}
