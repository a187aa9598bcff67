"""Stored delivery policies: precedence of topic and subscription, and the effect on a delivery."""

from __future__ import annotations

import pytest

from cns.delivery.delivery_policy import (
    DeliveryTerms,
    content_type_allowed,
    delivery_terms,
    effective_subscription_policy,
    effective_topic_policy,
    policy_text,
)
from cns.delivery.retry_policy import Backoff, RetryPolicy

DEFAULT_TOPIC = (
    '{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":3,'
    '"numMaxDelayRetries":0,"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},'
    '"disableSubscriptionOverrides":false,'
    '"defaultRequestPolicy":{"headerContentType":"text/plain; charset=UTF-8"}}}'
)
DEFAULT_SUBSCRIPTION = (
    '{"healthyRetryPolicy":{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":3,"numMaxDelayRetries":0,'
    '"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},"sicklyRetryPolicy":null,'
    '"throttlePolicy":null,"requestPolicy":{"headerContentType":"text/plain; charset=UTF-8"},"guaranteed":false}'
)
TOPIC = (
    '{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":5,"maxDelayTarget":30,"numRetries":10,'
    '"numMaxDelayRetries":3,"numNoDelayRetries":1,"numMinDelayRetries":2,"backoffFunction":"exponential"},'
    '"disableSubscriptionOverrides":false,"defaultThrottlePolicy":{"maxReceivesPerSecond":5},'
    '"defaultRequestPolicy":{"headerContentType":"application/json"}}}'
)
SUBSCRIPTION = (
    '{"healthyRetryPolicy":{"minDelayTarget":2,"maxDelayTarget":4,"numRetries":2,"numMaxDelayRetries":0,'
    '"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},"sicklyRetryPolicy":null,'
    '"throttlePolicy":{"maxReceivesPerSecond":1},"requestPolicy":{"headerContentType":"text/plain"},"guaranteed":false}'
)
TOPIC_AS_SUBSCRIPTION = (
    '{"healthyRetryPolicy":{"minDelayTarget":5,"maxDelayTarget":30,"numRetries":10,"numMaxDelayRetries":3,'
    '"numNoDelayRetries":1,"numMinDelayRetries":2,"backoffFunction":"exponential"},"sicklyRetryPolicy":null,'
    '"throttlePolicy":{"maxReceivesPerSecond":5},"requestPolicy":{"headerContentType":"application/json"},'
    '"guaranteed":false}'
)
CLOSED_TOPIC = TOPIC.replace('"disableSubscriptionOverrides":false', '"disableSubscriptionOverrides":true')
NOTHING_SET = (
    '{"healthyRetryPolicy":null,"sicklyRetryPolicy":null,"throttlePolicy":null,"requestPolicy":null,"guaranteed":false}'
)


@pytest.mark.spec("sns-policy-http.topic-default", "sns-policy-http.topic-throttle")
def test_effective_policy_of_a_topic() -> None:
    assert policy_text(effective_topic_policy(None)) == DEFAULT_TOPIC
    assert policy_text(effective_topic_policy("{}")) == DEFAULT_TOPIC
    assert policy_text(effective_topic_policy(TOPIC)) == TOPIC
    throttled = '{"http":{"disableSubscriptionOverrides":false,"defaultThrottlePolicy":{"maxReceivesPerSecond":9}}}'
    assert policy_text(effective_topic_policy(throttled)) == DEFAULT_TOPIC.replace(
        '"defaultRequestPolicy"', '"defaultThrottlePolicy":{"maxReceivesPerSecond":9},"defaultRequestPolicy"'
    )


@pytest.mark.spec("sns-policy-http.subscription-form", "sns-policy-http.inherits", "sns-policy-http.overrides")
@pytest.mark.parametrize(
    ("topic", "subscription", "effective"),
    [
        (None, None, DEFAULT_SUBSCRIPTION),
        (TOPIC, None, TOPIC_AS_SUBSCRIPTION),
        (TOPIC, SUBSCRIPTION, SUBSCRIPTION),
        (None, SUBSCRIPTION, SUBSCRIPTION),
        (CLOSED_TOPIC, SUBSCRIPTION, TOPIC_AS_SUBSCRIPTION),
        (TOPIC, NOTHING_SET, TOPIC_AS_SUBSCRIPTION),
        # one part of its own leaves the topic's other parts
        (TOPIC, NOTHING_SET.replace('"requestPolicy":null', '"requestPolicy":{"headerContentType":"text/plain"}'),
         TOPIC_AS_SUBSCRIPTION.replace("application/json", "text/plain")),
    ],
)  # fmt: skip
def test_effective_policy_of_a_subscription(topic: str | None, subscription: str | None, effective: str) -> None:
    assert policy_text(effective_subscription_policy(topic, subscription)) == effective


@pytest.mark.spec("sns-policy-http.content-types", "sns-policy-http.content-types-raw")
@pytest.mark.parametrize(
    ("content_type", "envelope", "raw"),
    [
        ("text/plain", True, True),
        ("text/plain; charset=UTF-8", True, True),
        ("application/json", True, True),
        ("application/json; charset=utf-8", True, True),
        ("application/json; charset=latin1", False, False),
        ("text/html", False, True),
        ("application/xml", False, True),
        ("application/x-www-form-urlencoded", False, True),
        ("text/css", False, True),
        ("image/png", False, False),
        ("", False, False),
        ("text/plain\r\nX-Evil: 1", False, False),
    ],
)
def test_content_types(content_type: str, envelope: bool, raw: bool) -> None:
    assert content_type_allowed(content_type, raw=False) is envelope
    assert content_type_allowed(content_type, raw=True) is raw


def test_terms_of_a_delivery() -> None:
    assert delivery_terms(None, None, False) == DeliveryTerms(
        retry=RetryPolicy(), content_type="text/plain; charset=UTF-8", receives_per_second=None
    )
    assert delivery_terms(TOPIC, None, False) == DeliveryTerms(
        retry=RetryPolicy(
            min_delay_s=5,
            max_delay_s=30,
            retries=10,
            no_delay=1,
            min_delay=2,
            max_delay=3,
            backoff=Backoff.EXPONENTIAL,
        ),
        content_type="application/json",
        receives_per_second=5,
    )


def test_an_envelope_is_not_sent_as_what_only_raw_bodies_may_be() -> None:
    own = NOTHING_SET.replace('"requestPolicy":null', '"requestPolicy":{"headerContentType":"text/html"}')
    assert delivery_terms(None, own, True).content_type == "text/html"
    assert delivery_terms(None, own, False).content_type == "text/plain; charset=UTF-8"
