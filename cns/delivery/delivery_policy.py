"""Delivery policies of topics and subscriptions for HTTP endpoints, and the policy in effect.

The structs are the stored form: encoded, they are byte for byte the DeliveryPolicy and EffectiveDeliveryPolicy that AWS
shows, so a stored text is decoded without checks. `cns/delivery/delivery_policy_parser.py` checks what a caller sends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import msgspec
from msgspec import UNSET, UnsetType

from cns.delivery.retry_policy import Backoff, RetryPolicy

DEFAULT_CONTENT_TYPE = "text/plain; charset=UTF-8"
TERMS_CACHED_MAX = 4096  # distinct pairs of policies kept by `delivery_terms`

_ENVELOPE_CONTENT_TYPES = frozenset({"text/plain", "application/json"})
_RAW_CONTENT_TYPES = _ENVELOPE_CONTENT_TYPES | {
    "text/css",
    "text/csv",
    "text/html",
    "text/xml",
    "application/atom+xml",
    "application/octet-stream",
    "application/soap+xml",
    "application/x-www-form-urlencoded",
    "application/xhtml+xml",
    "application/xml",
}
_CHARSET = "; charset=utf-8"


class HealthyRetryPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Field order is AWS's. A member that the caller left out is null in a subscription's own policy and absent from a
    topic's own policy; an effective policy has every member."""

    min_delay_target: int = 20
    max_delay_target: int = 20
    num_retries: int = 3
    num_max_delay_retries: int | UnsetType | None = 0
    num_no_delay_retries: int | UnsetType | None = 0
    num_min_delay_retries: int | UnsetType | None = 0
    backoff_function: Backoff | UnsetType | None = Backoff.LINEAR


class ThrottlePolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    max_receives_per_second: int


class RequestPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    header_content_type: str = DEFAULT_CONTENT_TYPE


class HttpDefaults(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The `http` part of a topic's policy; members that are not set are not shown."""

    default_healthy_retry_policy: HealthyRetryPolicy | UnsetType = UNSET
    disable_subscription_overrides: bool = False
    default_throttle_policy: ThrottlePolicy | UnsetType = UNSET
    default_request_policy: RequestPolicy | UnsetType = UNSET


class TopicPolicy(msgspec.Struct, frozen=True, kw_only=True):
    http: HttpDefaults | UnsetType = UNSET


class SubscriptionPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Members that are not set are shown as null, and so is the sickly policy, which AWS never stores."""

    healthy_retry_policy: HealthyRetryPolicy | None = None
    sickly_retry_policy: None = None
    throttle_policy: ThrottlePolicy | None = None
    request_policy: RequestPolicy | None = None
    guaranteed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTerms:
    """The policy in effect for one HTTP subscription, as deliveries use it."""

    retry: RetryPolicy
    content_type: str
    receives_per_second: int | None  # average; None: no throttle


def policy_text(policy: TopicPolicy | SubscriptionPolicy) -> str:
    """The text that the Get…Attributes actions show and the stores keep."""
    return msgspec.json.encode(policy).decode()


def effective_topic_policy(stored: str | None) -> TopicPolicy:
    """The policy in effect for a topic with this stored text."""
    own = _topic_defaults(stored)
    return TopicPolicy(
        http=HttpDefaults(
            default_healthy_retry_policy=own.default_healthy_retry_policy or HealthyRetryPolicy(),
            disable_subscription_overrides=own.disable_subscription_overrides,
            default_throttle_policy=own.default_throttle_policy,
            default_request_policy=own.default_request_policy or RequestPolicy(),
        )
    )


def effective_subscription_policy(topic_stored: str | None, stored: str | None) -> SubscriptionPolicy:
    """Each part is the subscription's own when it has one and the topic allows overrides, else the topic's."""
    topic = _topic_defaults(topic_stored)
    own = SubscriptionPolicy()
    if stored and not topic.disable_subscription_overrides:
        own = msgspec.json.decode(stored, type=SubscriptionPolicy)
    return SubscriptionPolicy(
        healthy_retry_policy=_filled(own.healthy_retry_policy)
        or topic.default_healthy_retry_policy
        or HealthyRetryPolicy(),
        throttle_policy=own.throttle_policy or topic.default_throttle_policy or None,
        request_policy=own.request_policy or topic.default_request_policy or RequestPolicy(),
        guaranteed=own.guaranteed,
    )


def retry_policy_of(policy: HealthyRetryPolicy) -> RetryPolicy:
    return RetryPolicy(
        min_delay_s=policy.min_delay_target,
        max_delay_s=policy.max_delay_target,
        retries=policy.num_retries,
        no_delay=policy.num_no_delay_retries or 0,
        min_delay=policy.num_min_delay_retries or 0,
        max_delay=policy.num_max_delay_retries or 0,
        backoff=policy.backoff_function or Backoff.LINEAR,
    )


@lru_cache(maxsize=TERMS_CACHED_MAX)
def delivery_terms(topic_stored: str | None, stored: str | None, raw: bool) -> DeliveryTerms:
    """The terms of deliveries to one subscription; `raw` is its RawMessageDelivery."""
    effective = effective_subscription_policy(topic_stored, stored)
    throttle = effective.throttle_policy
    request = effective.request_policy or RequestPolicy()
    allowed = content_type_allowed(request.header_content_type, raw)
    return DeliveryTerms(
        retry=retry_policy_of(effective.healthy_retry_policy or HealthyRetryPolicy()),
        # raw delivery may have been switched off after the policy was set: an envelope is never sent as text/html
        content_type=request.header_content_type if allowed else DEFAULT_CONTENT_TYPE,
        receives_per_second=throttle.max_receives_per_second if throttle else None,
    )


def content_type_allowed(content_type: str, raw: bool) -> bool:
    """Whether AWS allows the type: text or JSON for envelopes, a longer list for raw bodies. The only charset is
    UTF-8."""
    media_type = content_type[: -len(_CHARSET)] if content_type.lower().endswith(_CHARSET) else content_type
    return media_type in (_RAW_CONTENT_TYPES if raw else _ENVELOPE_CONTENT_TYPES)


def _filled(policy: HealthyRetryPolicy | None) -> HealthyRetryPolicy | None:
    """Replace null members by their defaults."""
    if policy is None:
        return None
    return HealthyRetryPolicy(
        **{name: value for name, value in msgspec.structs.asdict(policy).items() if value is not None}
    )


def _topic_defaults(stored: str | None) -> HttpDefaults:
    if not stored:
        return HttpDefaults()
    return msgspec.json.decode(stored, type=TopicPolicy).http or HttpDefaults()
