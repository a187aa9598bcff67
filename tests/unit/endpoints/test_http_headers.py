"""Headers of requests to web endpoints, written out by hand from sns.md §6."""

from __future__ import annotations

import pytest

from cns.delivery.envelope import (
    MessageType,
    http_headers,
)

TOPIC = "arn:aws:sns:eu-west-1:123456789012:orders"
SUBSCRIPTION = f"{TOPIC}:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55"
COMMON = {
    "x-amz-sns-message-id": "i",
    "x-amz-sns-topic-arn": TOPIC,
    "User-Agent": "Amazon Simple Notification Service Agent",
    "Accept-Encoding": "gzip,deflate",
}
WITH_SUBSCRIPTION = COMMON | {"x-amz-sns-subscription-arn": SUBSCRIPTION}


@pytest.mark.spec(
    "sns-http.type",
    "sns-http.message-id",
    "sns-http.topic-arn",
    "sns-http.subscription-arn",
    "sns-http.no-subscription-arn",
    "sns-http.raw-header",
    "sns-http.content-type-policy",
    "sns-http.content-type-confirmation",
    "sns-http.user-agent",
    "sns-http.accept-encoding",
)
@pytest.mark.parametrize(
    ("message_type", "raw", "expected"),
    [
        (MessageType.SUBSCRIPTION_CONFIRMATION, False, COMMON | {"Content-Type": "text/plain; charset=UTF-8"}),
        (MessageType.SUBSCRIPTION_CONFIRMATION, True, COMMON | {"Content-Type": "text/plain; charset=UTF-8"}),
        (MessageType.NOTIFICATION, False, WITH_SUBSCRIPTION | {"Content-Type": "application/json"}),
        (
            MessageType.NOTIFICATION,
            True,
            WITH_SUBSCRIPTION | {"Content-Type": "application/json", "x-amz-sns-rawdelivery": "true"},
        ),
        (MessageType.UNSUBSCRIBE_CONFIRMATION, True, WITH_SUBSCRIPTION | {"Content-Type": "application/json"}),
    ],
)
def test_http_headers(message_type: MessageType, raw: bool, expected: dict[str, str]) -> None:
    headers = http_headers(message_type, "i", TOPIC, SUBSCRIPTION, "application/json", raw=raw)
    assert headers == expected | {"x-amz-sns-message-type": message_type.value}
