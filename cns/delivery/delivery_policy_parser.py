"""Parses the DeliveryPolicy text of a request into the stored form, with AWS's error texts.

AWS accepts any sickly policy and stores none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import msgspec
from msgspec import UNSET, UnsetType

from cns.delivery.delivery_policy import (
    HealthyRetryPolicy,
    HttpDefaults,
    RequestPolicy,
    SubscriptionPolicy,
    ThrottlePolicy,
    TopicPolicy,
    content_type_allowed,
    retry_policy_of,
)
from cns.delivery.retry_policy import RETRIES_MAX, TOTAL_S_MAX, Backoff, delays_s
from cns_common.errors import UNREADABLE, RequestError

Json = Mapping[str, object]

_TOPIC_MEMBERS = frozenset({"http"})
_HTTP_MEMBERS = frozenset(
    {
        "defaultHealthyRetryPolicy",
        "defaultSicklyRetryPolicy",
        "disableSubscriptionOverrides",
        "defaultThrottlePolicy",
        "defaultRequestPolicy",
    }
)
_SUBSCRIPTION_MEMBERS = frozenset(
    {"healthyRetryPolicy", "sicklyRetryPolicy", "throttlePolicy", "requestPolicy", "guaranteed"}
)
_RETRY_NAMES = dict(zip(HealthyRetryPolicy.__struct_fields__, HealthyRetryPolicy.__struct_encode_fields__, strict=True))
_RETRY_MEMBERS = frozenset(_RETRY_NAMES.values())
_THROTTLE_MEMBERS = frozenset(ThrottlePolicy.__struct_encode_fields__)
_REQUEST_MEMBERS = frozenset(RequestPolicy.__struct_encode_fields__)
_BACKOFF_NAMES = frozenset(backoff.value for backoff in Backoff)


def parse_topic_policy(text: str, prefix: str = "") -> TopicPolicy | None:
    """The policy of a topic, or None for the empty text, which removes it."""
    if not text:
        return None
    reader = _PolicyReader(prefix)
    topic = reader.read(text, _TOPIC_MEMBERS)
    http = reader.part(topic, "http", "http", _HTTP_MEMBERS)
    if http is None:
        return TopicPolicy()
    return TopicPolicy(
        http=HttpDefaults(
            default_healthy_retry_policy=reader.retry_policy(
                http, "defaultHealthyRetryPolicy", "http.defaultHealthyRetryPolicy", left_out=UNSET
            )
            or UNSET,
            disable_subscription_overrides=reader.flag(http, "disableSubscriptionOverrides", "http"),
            default_throttle_policy=reader.throttle(http, "defaultThrottlePolicy", "http.defaultThrottlePolicy")
            or UNSET,
            default_request_policy=reader.request(http, "defaultRequestPolicy", "http.defaultRequestPolicy", raw=False)
            or UNSET,
        )
    )


def parse_subscription_policy(text: str, *, raw: bool, prefix: str = "") -> SubscriptionPolicy | None:
    """The policy of an HTTP subscription, or None for the empty text, which removes it."""
    if not text:
        return None
    reader = _PolicyReader(prefix)
    policy = reader.read(text, _SUBSCRIPTION_MEMBERS)
    return SubscriptionPolicy(
        healthy_retry_policy=reader.retry_policy(policy, "healthyRetryPolicy", "healthyRetryPolicy", left_out=None),
        throttle_policy=reader.throttle(policy, "throttlePolicy", "throttlePolicy"),
        request_policy=reader.request(policy, "requestPolicy", "requestPolicy", raw=raw),
        guaranteed=reader.flag(policy, "guaranteed", ""),
    )


@dataclass(frozen=True, slots=True)
class _PolicyReader:
    """Reads one policy. `prefix` precedes each error text. A null member counts as absent."""

    prefix: str

    def refuse(self, message: str) -> NoReturn:
        raise RequestError("InvalidParameter", f"Invalid parameter: {self.prefix}DeliveryPolicy: {message}")

    def read(self, text: str, members: frozenset[str]) -> Json:
        try:
            document = msgspec.json.decode(text.encode())
        except UNREADABLE:
            self.refuse("failed to parse JSON.")
        return self._object(document, "policy", members)

    def part(self, owner: Json, name: str, path: str, members: frozenset[str]) -> Json | None:
        value = owner.get(name)
        return None if value is None else self._object(value, path, members)

    def retry_policy(
        self, owner: Json, name: str, path: str, *, left_out: UnsetType | None
    ) -> HealthyRetryPolicy | None:
        """The retry policy of the caller, with `left_out` in place of absent optional members."""
        members = self.part(owner, name, path, _RETRY_MEMBERS)
        if members is None:
            return None
        policy = HealthyRetryPolicy(
            min_delay_target=self._integer(members, "minDelayTarget", path, least=1),
            max_delay_target=self._integer(members, "maxDelayTarget", path, most=TOTAL_S_MAX),
            num_retries=self._integer(members, "numRetries", path, most=RETRIES_MAX),
            num_max_delay_retries=self._integer(members, "numMaxDelayRetries", path, default=0),
            num_no_delay_retries=self._integer(members, "numNoDelayRetries", path, default=0),
            num_min_delay_retries=self._integer(members, "numMinDelayRetries", path, default=0),
            backoff_function=self._backoff(members, path),
        )
        self._check_sums(policy, path)
        absent = [field for field, member in _RETRY_NAMES.items() if members.get(member) is None]
        return msgspec.structs.replace(policy, **dict.fromkeys(absent, left_out))

    def throttle(self, owner: Json, name: str, path: str) -> ThrottlePolicy | None:
        members = self.part(owner, name, path, _THROTTLE_MEMBERS)
        if members is None or members.get("maxReceivesPerSecond") is None:
            return None
        rate = members["maxReceivesPerSecond"]
        if type(rate) is not int or rate < 1:
            self.refuse(f"{path}.maxReceivesPerSecond must be >= 1")
        return ThrottlePolicy(max_receives_per_second=rate)

    def request(self, owner: Json, name: str, path: str, *, raw: bool) -> RequestPolicy | None:
        members = self.part(owner, name, path, _REQUEST_MEMBERS)
        if members is None or members.get("headerContentType") is None:
            return None
        content_type = members["headerContentType"]
        if not isinstance(content_type, str) or not content_type_allowed(content_type, raw):
            self.refuse(f"{path}.headerContentType: the value [{content_type}] is not a valid content type")
        return RequestPolicy(header_content_type=content_type)

    def flag(self, owner: Json, name: str, path: str) -> bool:
        value = owner.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            self.refuse(f"{_join(path, name)} must be either true or false.")
        return value

    def _object(self, value: object, path: str, members: frozenset[str]) -> Json:
        if not isinstance(value, dict):
            self.refuse(f"{path} must be a JSON object")
        for member in value:
            if member not in members:
                self.refuse(f"Unexpected JSON member: {member}")
        return value

    def _integer(
        self,
        members: Json,
        name: str,
        path: str,
        *,
        least: int = 0,
        most: int | None = None,
        default: int | None = None,
    ) -> int:
        value = members.get(name)
        if value is None:
            value = default
        if value is None:
            self.refuse(f"{path}.{name} must be specified")
        if type(value) is not int:  # true is an int to Python
            self.refuse(f"{path}.{name} type mismatch, expecting integer, received {_kind(value)}")
        if value < least:
            self.refuse(f"{path}.{name} must be greater than or equal to {least}")
        if most is not None and value > most:
            self.refuse(f"{path}.{name} must be less than or equal to {most}")
        return value

    def _backoff(self, members: Json, path: str) -> Backoff:
        name = members.get("backoffFunction")
        if name is None:
            return Backoff.LINEAR
        if not isinstance(name, str) or name not in _BACKOFF_NAMES:
            self.refuse(f"{path}.backoffFunction: the value [{name}] is not a valid backoff function")
        return Backoff(name)

    def _check_sums(self, policy: HealthyRetryPolicy, path: str) -> None:
        if policy.max_delay_target < policy.min_delay_target:
            self.refuse(f"{path}.maxDelayTarget must be greater than or equal to minDelayTarget")
        counts = policy.num_min_delay_retries, policy.num_no_delay_retries, policy.num_max_delay_retries
        if policy.num_retries < sum(count or 0 for count in counts):
            self.refuse(
                f"{path}.numRetries must be greater than or equal to total of numMinDelayRetries, numNoDelayRetries "
                "and numMaxDelayRetries"
            )
        if math.fsum(delays_s(retry_policy_of(policy))) > TOTAL_S_MAX:
            self.refuse(f"{path}: Total policy retry time cannot be greater than {TOTAL_S_MAX} seconds")


def _kind(value: object) -> str:
    kinds = {str: "a string", bool: "a boolean", list: "an array", dict: "an object"}
    return kinds.get(type(value), "a number")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
