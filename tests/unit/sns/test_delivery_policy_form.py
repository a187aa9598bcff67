"""DeliveryPolicy as callers send it: the form it is stored in, and AWS's complaints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cns.delivery.delivery_policy import policy_text
from cns.delivery.delivery_policy_parser import parse_subscription_policy, parse_topic_policy
from cns.delivery.retry_policy import Backoff
from cns.errors import AT_CREATION
from cns_common.errors import RequestError
from tests.unit.sns.refusals import complaint_of
from tests.unit.sns.test_delivery_policy import DEFAULT_TOPIC, NOTHING_SET, SUBSCRIPTION, TOPIC

RETRY = {"minDelayTarget": 1, "maxDelayTarget": 20, "numRetries": 3}


def stored_topic(text: str) -> str:
    policy = parse_topic_policy(text)
    assert policy is not None
    return policy_text(policy)


def stored_subscription(text: str, *, raw: bool = False) -> str:
    policy = parse_subscription_policy(text, raw=raw)
    assert policy is not None
    return policy_text(policy)


@pytest.mark.spec("sns-policy-http.phase-defaults")
@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (TOPIC, TOPIC),
        (DEFAULT_TOPIC, DEFAULT_TOPIC),
        (json.dumps(json.loads(TOPIC), indent=2, sort_keys=True), TOPIC),  # order and blanks are AWS's own
        ("{}", "{}"),
        ('{"http":{}}', '{"http":{"disableSubscriptionOverrides":false}}'),
        ('{"http":{"defaultSicklyRetryPolicy":null,"defaultThrottlePolicy":null,"defaultRequestPolicy":{}}}',
         '{"http":{"disableSubscriptionOverrides":false}}'),
        ('{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":2,"numRetries":5}}}',
         '{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":2,"numRetries":5},'
         '"disableSubscriptionOverrides":false}}'),
        ('{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":2,"numRetries":5,'
         '"numMaxDelayRetries":0,"numNoDelayRetries":null,"backoffFunction":"linear"}}}',
         '{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":2,"numRetries":5,'
         '"numMaxDelayRetries":0,"backoffFunction":"linear"},"disableSubscriptionOverrides":false}}'),
    ],
)  # fmt: skip
def test_stored_form_of_a_topic(sent: str, stored: str) -> None:
    assert stored_topic(sent) == stored
    assert stored_topic(stored) == stored


@pytest.mark.spec("sns-policy-http.sickly", "sns-policy-http.subscription-form", "sns-policy-http.left-out")
@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (SUBSCRIPTION, SUBSCRIPTION),
        (json.dumps(json.loads(SUBSCRIPTION), indent=1, sort_keys=True), SUBSCRIPTION),
        ("{}", NOTHING_SET),
        ('{"sicklyRetryPolicy":{"numRetries":7},"guaranteed":false}', NOTHING_SET),
        (
            '{"healthyRetryPolicy":{"numRetries":5,"minDelayTarget":5,"maxDelayTarget":20,"numNoDelayRetries":0}}',
            '{"healthyRetryPolicy":{"minDelayTarget":5,"maxDelayTarget":20,"numRetries":5,"numMaxDelayRetries":null,'
            '"numNoDelayRetries":0,"numMinDelayRetries":null,"backoffFunction":null},"sicklyRetryPolicy":null,'
            '"throttlePolicy":null,"requestPolicy":null,"guaranteed":false}',
        ),
    ],
)
def test_stored_form_of_a_subscription(sent: str, stored: str) -> None:
    assert stored_subscription(sent) == stored
    assert stored_subscription(stored) == stored


@pytest.mark.spec("sns-policy-http.removed")
def test_the_empty_text_removes_a_policy() -> None:
    assert parse_topic_policy("") is None
    assert parse_subscription_policy("", raw=False) is None


def retry(**changes: Any) -> dict[str, Any]:
    """A valid retry policy with some members changed; None removes one."""
    return {name: value for name, value in (RETRY | changes).items() if value is not None}


RETRY_COMPLAINTS = [
    (retry(numRetries=101), ".numRetries must be less than or equal to 100"),
    (retry(numRetries=-1), ".numRetries must be greater than or equal to 0"),
    (retry(numRetries=None), ".numRetries must be specified"),
    (retry(numRetries=1.5), ".numRetries type mismatch, expecting integer, received a number"),
    (retry(numRetries=True), ".numRetries type mismatch, expecting integer, received a boolean"),
    (retry(numRetries="3"), ".numRetries type mismatch, expecting integer, received a string"),
    (retry(numRetries=[3]), ".numRetries type mismatch, expecting integer, received an array"),
    (retry(numRetries={}), ".numRetries type mismatch, expecting integer, received an object"),
    (retry(minDelayTarget=0), ".minDelayTarget must be greater than or equal to 1"),
    (retry(minDelayTarget=None, maxDelayTarget=None), ".minDelayTarget must be specified"),
    (retry(maxDelayTarget=None), ".maxDelayTarget must be specified"),
    (retry(maxDelayTarget=3601), ".maxDelayTarget must be less than or equal to 3600"),
    (retry(minDelayTarget=21), ".maxDelayTarget must be greater than or equal to minDelayTarget"),
    (retry(numNoDelayRetries=-1), ".numNoDelayRetries must be greater than or equal to 0"),
    (
        retry(numNoDelayRetries=1, numMinDelayRetries=1, numMaxDelayRetries=2),
        ".numRetries must be greater than or equal to total of numMinDelayRetries, numNoDelayRetries and "
        "numMaxDelayRetries",
    ),
    (retry(backoffFunction="cubic"), ".backoffFunction: the value [cubic] is not a valid backoff function"),
    (retry(backoffFunction=["linear"]), ".backoffFunction: the value [['linear']] is not a valid backoff function"),
    (
        retry(minDelayTarget=1201, maxDelayTarget=1201),
        ": Total policy retry time cannot be greater than 3600 seconds",
    ),
]


@pytest.mark.spec(
    "sns-policy-http.minDelayTarget",
    "sns-policy-http.maxDelayTarget",
    "sns-policy-http.numRetries",
    "sns-policy-http.numRetries-text",
    "sns-policy-http.minDelayTarget-text",
    "sns-policy-http.required",
    "sns-policy-http.integer",
    "sns-policy-http.phases-sum",
    "sns-policy-http.backoff",
    "sns-policy-http.total",
    "sns-policy-http.prefix",
)
@pytest.mark.parametrize(("policy", "complaint"), RETRY_COMPLAINTS)
@pytest.mark.parametrize("prefix", ["", AT_CREATION])
def test_a_retry_policy_is_refused(policy: dict[str, Any], complaint: str, prefix: str) -> None:
    with pytest.raises(RequestError) as topic:
        parse_topic_policy(json.dumps({"http": {"defaultHealthyRetryPolicy": policy}}), prefix)
    assert topic.value.code == "InvalidParameter"
    path = "http.defaultHealthyRetryPolicy"
    assert topic.value.message == f"Invalid parameter: {prefix}DeliveryPolicy: {path}{complaint}"
    with pytest.raises(RequestError) as subscription:
        parse_subscription_policy(json.dumps({"healthyRetryPolicy": policy}), raw=False, prefix=prefix)
    path = "healthyRetryPolicy"
    assert subscription.value.message == f"Invalid parameter: {prefix}DeliveryPolicy: {path}{complaint}"


@pytest.mark.spec(
    "sns-policy-http.minDelayTarget",
    "sns-policy-http.maxDelayTarget",
    "sns-policy-http.numRetries",
    "sns-policy-http.phases-sum",
    "sns-policy-http.backoff",
)
@pytest.mark.parametrize(
    "policy",
    [
        retry(numRetries=100),
        retry(numRetries=0),
        retry(numNoDelayRetries=1, numMinDelayRetries=1, numMaxDelayRetries=1),
        retry(minDelayTarget=1200, maxDelayTarget=1200),  # an hour to the second
        retry(maxDelayTarget=3600, numRetries=1),
        *(retry(backoffFunction=backoff.value) for backoff in Backoff),
    ],
)
def test_a_retry_policy_at_the_limits_is_taken(policy: dict[str, Any]) -> None:
    kept = json.loads(stored_subscription(json.dumps({"healthyRetryPolicy": policy})))["healthyRetryPolicy"]
    assert kept | policy == kept


@pytest.mark.parametrize(
    ("retries", "least"), [(retries, least) for retries in (60, 72, 90, 96, 100) for least in (1, 2, 7)]
)
def test_an_hour_exactly_is_not_refused_for_rounding(retries: int, least: int) -> None:
    most = 7200 // retries - least  # a linear backoff that adds up to 3,600 s
    stored_subscription(
        json.dumps({"healthyRetryPolicy": retry(minDelayTarget=least, maxDelayTarget=most, numRetries=retries)})
    )


@pytest.mark.spec(
    "sns-policy-http.unknown-key",
    "sns-policy-http.not-json",
    "sns-policy-http.throttle-range",
    "sns-policy-http.content-types",
)
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "failed to parse JSON."),
        ("{} {}", "failed to parse JSON."),
        ("nonsense", "failed to parse JSON."),
        ("[" * 100_000, "failed to parse JSON."),
        ('{"http":' + "[" * 100_000 + "]" * 100_000 + "}", "failed to parse JSON."),
        ("\ud800", "failed to parse JSON."),
        ("null", "policy must be a JSON object"),
        ("[]", "policy must be a JSON object"),
        ('{"http":[]}', "http must be a JSON object"),
        ('{"https":{}}', "Unexpected JSON member: https"),
        ('{"http":{"throttlePolicy":{"maxReceivesPerSecond":1}}}', "Unexpected JSON member: throttlePolicy"),
        ('{"http":{"defaultHealthyRetryPolicy":{"retries":1}}}', "Unexpected JSON member: retries"),
        (SUBSCRIPTION, "Unexpected JSON member: healthyRetryPolicy"),
        (
            '{"http":{"defaultThrottlePolicy":{"maxReceivesPerSecond":0}}}',
            "http.defaultThrottlePolicy.maxReceivesPerSecond must be >= 1",
        ),
        (
            '{"http":{"defaultRequestPolicy":{"headerContentType":"text/html"}}}',
            "http.defaultRequestPolicy.headerContentType: the value [text/html] is not a valid content type",
        ),
        (
            '{"http":{"disableSubscriptionOverrides":"yes"}}',
            "http.disableSubscriptionOverrides must be either true or false.",
        ),
    ],
)
def test_a_topic_policy_is_refused(text: str, complaint: str) -> None:
    assert complaint_of(parse_topic_policy, text) == f"DeliveryPolicy: {complaint}"


@pytest.mark.spec("sns-policy-http.unknown-key", "sns-policy-http.throttle-range")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (TOPIC, "Unexpected JSON member: http"),
        ('{"throttlePolicy":{"maxReceivesPerSecond":0}}', "throttlePolicy.maxReceivesPerSecond must be >= 1"),
        ('{"throttlePolicy":{"maxReceivesPerSecond":2.5}}', "throttlePolicy.maxReceivesPerSecond must be >= 1"),
        ('{"guaranteed":1}', "guaranteed must be either true or false."),
        (
            '{"requestPolicy":{"headerContentType":7}}',
            "requestPolicy.headerContentType: the value [7] is not a valid content type",
        ),
    ],
)
def test_a_subscription_policy_is_refused(text: str, complaint: str) -> None:
    assert complaint_of(parse_subscription_policy, text, raw=True) == f"DeliveryPolicy: {complaint}"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), lambda inner: (
    st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["http", "healthyRetryPolicy", "defaultHealthyRetryPolicy", "minDelayTarget", "maxDelayTarget",
             "numRetries", "backoffFunction", "requestPolicy", "headerContentType", "throttlePolicy", "guaranteed"]
        ),
        inner, max_size=5,
    )
)))  # fmt: skip
def test_bad_input_raises_nothing_but_a_request_error(document: object) -> None:
    for parse in (parse_topic_policy, lambda text: parse_subscription_policy(text, raw=True)):
        try:
            policy = parse(json.dumps(document))
        except RequestError:
            continue
        assert policy is not None
