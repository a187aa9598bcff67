"""Bodies to the byte, written out by hand from sns.md §6, and the text that is signed, from §7."""

from __future__ import annotations

import json

import pytest

from cns.delivery.envelope import (
    ConfirmationNotice,
    MessageType,
    confirmation_fields,
    notification_fields,
    render_confirmation,
    render_notification,
    subscribe_url,
    text_to_sign,
    timestamp_text,
    unsubscribe_url,
)
from cns.delivery.signing import MessageSignature
from cns.notification import Notification

TOPIC = "arn:aws:sns:eu-west-1:123456789012:orders"
SUBSCRIPTION = f"{TOPIC}:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55"
BASE = "https://sns.eu-west-1.amazonaws.com"
SEAL = MessageSignature("1", "c2lnbmF0dXJl", f"{BASE}/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem")
TOKEN = "2336412f37fb"
MS = 1335920046655

PLAIN = Notification(
    id="22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324", topic_arn=TOPIC, timestamp_ms=MS, texts={"default": "Hello world!"}
)
FULL = Notification(
    id="22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
    topic_arn=TOPIC,
    timestamp_ms=MS,
    subject='My "First" Message',
    texts={"default": "line one\nline two\ttab / slash \\ 雪🙂"},
    attributes={
        "kind": ("String", "wrapped"),
        "size.m": ("Number.int", "0012"),
        "list": ("String.Array", '["a","b"]'),
        "blob": ("Binary", "AQID"),
    },
)
FIFO = Notification(
    id="22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
    topic_arn=f"{TOPIC}.fifo",
    timestamp_ms=MS,
    texts={"default": "Hello world!"},
    attributes={"kind": ("String", "wrapped")},
    sequence_number="10000000000000003000",
    message_group_id="g",
)

PLAIN_BODY = """\
{
  "Type" : "Notification",
  "MessageId" : "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
  "TopicArn" : "arn:aws:sns:eu-west-1:123456789012:orders",
  "Message" : "Hello world!",
  "Timestamp" : "2012-05-02T00:54:06.655Z",
  "SignatureVersion" : "1",
  "Signature" : "c2lnbmF0dXJl",
  "SigningCertURL" : "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
  "UnsubscribeURL" : "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=arn:aws:sns:eu-west-1:123456789012:orders:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55"
}"""
FULL_BODY = """\
{
  "Type" : "Notification",
  "MessageId" : "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
  "TopicArn" : "arn:aws:sns:eu-west-1:123456789012:orders",
  "Subject" : "My \\"First\\" Message",
  "Message" : "line one\\nline two\\ttab / slash \\\\ 雪🙂",
  "Timestamp" : "2012-05-02T00:54:06.655Z",
  "SignatureVersion" : "1",
  "Signature" : "c2lnbmF0dXJl",
  "SigningCertURL" : "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
  "UnsubscribeURL" : "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=arn:aws:sns:eu-west-1:123456789012:orders:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55",
  "MessageAttributes" : {
    "kind" : {"Type":"String","Value":"wrapped"},
    "size.m" : {"Type":"Number.int","Value":"0012"},
    "list" : {"Type":"String.Array","Value":"[\\"a\\",\\"b\\"]"},
    "blob" : {"Type":"Binary","Value":"AQID"}
  }
}"""
FIFO_BODY = """\
{
  "Type" : "Notification",
  "MessageId" : "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
  "SequenceNumber" : "10000000000000003000",
  "TopicArn" : "arn:aws:sns:eu-west-1:123456789012:orders.fifo",
  "Message" : "Hello world!",
  "Timestamp" : "2012-05-02T00:54:06.655Z",
  "UnsubscribeURL" : "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=arn:aws:sns:eu-west-1:123456789012:orders:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55",
  "MessageAttributes" : {
    "kind" : {"Type":"String","Value":"wrapped"}
  }
}"""
SUBSCRIBE_BODY = """\
{
  "Type" : "SubscriptionConfirmation",
  "MessageId" : "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
  "Token" : "2336412f37fb",
  "TopicArn" : "arn:aws:sns:eu-west-1:123456789012:orders",
  "Message" : "You have chosen to subscribe to the topic arn:aws:sns:eu-west-1:123456789012:orders.\\nTo confirm the subscription, visit the SubscribeURL included in this message.",
  "SubscribeURL" : "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:eu-west-1:123456789012:orders&Token=2336412f37fb",
  "Timestamp" : "2012-05-02T00:54:06.655Z",
  "SignatureVersion" : "1",
  "Signature" : "c2lnbmF0dXJl",
  "SigningCertURL" : "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
}"""  # noqa: E501
UNSUBSCRIBE_BODY = """\
{
  "Type" : "UnsubscribeConfirmation",
  "MessageId" : "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
  "Token" : "2336412f37fb",
  "TopicArn" : "arn:aws:sns:eu-west-1:123456789012:orders",
  "Message" : "You have chosen to deactivate subscription arn:aws:sns:eu-west-1:123456789012:orders:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55.\\nTo cancel this operation and restore the subscription, visit the SubscribeURL included in this message.",
  "SubscribeURL" : "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:eu-west-1:123456789012:orders&Token=2336412f37fb",
  "Timestamp" : "2012-05-02T00:54:06.655Z",
  "SignatureVersion" : "1",
  "Signature" : "c2lnbmF0dXJl",
  "SigningCertURL" : "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
}"""  # noqa: E501


def confirmation(message_type: MessageType) -> ConfirmationNotice:
    return ConfirmationNotice(
        type=message_type,
        id="165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
        token=TOKEN,
        topic_arn=TOPIC,
        subscription_arn=SUBSCRIPTION,
        timestamp_ms=MS,
    )


@pytest.mark.spec(
    "sns-envelope.layout",
    "sns-envelope.attributes-layout",
    "sns-envelope.notification",
    "sns-envelope.attribute-form",
    "sns-envelope.fifo-sequence",
)
@pytest.mark.parametrize(
    ("notification", "seal", "body"),
    [(PLAIN, SEAL, PLAIN_BODY), (FULL, SEAL, FULL_BODY), (FIFO, None, FIFO_BODY)],
    ids=["plain", "full", "fifo"],
)
def test_notification_bodies(notification: Notification, seal: MessageSignature | None, body: str) -> None:
    fields = notification_fields(notification, notification.text_for("https"))
    envelope = render_notification(fields, notification.attributes, seal)
    assert envelope.body(unsubscribe_url(BASE, SUBSCRIPTION)).decode() == body


def test_a_replayed_notification_says_so_after_all_else() -> None:
    fields = notification_fields(FULL, FULL.text_for("https"))
    envelope = render_notification(fields, FULL.attributes, SEAL, replayed=True)
    body = envelope.body(unsubscribe_url(BASE, SUBSCRIPTION)).decode()
    assert body == FULL_BODY.removesuffix("\n}") + ',\n  "Replayed" : "true"\n}'


def test_one_envelope_serves_every_subscription() -> None:
    envelope = render_notification(notification_fields(FULL, "text"), FULL.attributes, SEAL)
    bodies = [json.loads(envelope.body(unsubscribe_url(BASE, f"{TOPIC}:{n}"))) for n in range(2)]
    assert [body.pop("UnsubscribeURL")[-2:] for body in bodies] == [":0", ":1"]
    assert bodies[0] == bodies[1]


@pytest.mark.spec("sns-envelope.fifo-sequence")
def test_a_structured_fifo_message_shows_no_sequence_number() -> None:
    structured = Notification(
        id="i", topic_arn="t.fifo", timestamp_ms=0, texts={"default": "d"}, sequence_number="1", structured=True
    )
    assert "SequenceNumber" not in notification_fields(structured, "d")


@pytest.mark.spec(
    "sns-envelope.layout",
    "sns-envelope.confirmation",
    "sns-envelope.subscribe-text",
    "sns-envelope.unsubscribe-text",
    "sns-envelope.subscribe-url",
)
@pytest.mark.parametrize(
    ("message_type", "body"),
    [
        (MessageType.SUBSCRIPTION_CONFIRMATION, SUBSCRIBE_BODY),
        (MessageType.UNSUBSCRIBE_CONFIRMATION, UNSUBSCRIBE_BODY),
    ],
)
def test_confirmation_bodies(message_type: MessageType, body: str) -> None:
    assert render_confirmation(confirmation_fields(confirmation(message_type), BASE), SEAL).decode() == body


PLAIN_SIGNED = """\
Message
Hello world!
MessageId
22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324
Timestamp
2012-05-02T00:54:06.655Z
TopicArn
arn:aws:sns:eu-west-1:123456789012:orders
Type
Notification
"""
FULL_SIGNED = """\
Message
line one
line two\ttab / slash \\ 雪🙂
MessageId
22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324
Subject
My "First" Message
Timestamp
2012-05-02T00:54:06.655Z
TopicArn
arn:aws:sns:eu-west-1:123456789012:orders
Type
Notification
"""
UNSUBSCRIBE_SIGNED = """\
Message
You have chosen to deactivate subscription arn:aws:sns:eu-west-1:123456789012:orders:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55.
To cancel this operation and restore the subscription, visit the SubscribeURL included in this message.
MessageId
165545c9-2a5c-472c-8df2-7ff2be2b3b1b
SubscribeURL
https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:eu-west-1:123456789012:orders&Token=2336412f37fb
Timestamp
2012-05-02T00:54:06.655Z
Token
2336412f37fb
TopicArn
arn:aws:sns:eu-west-1:123456789012:orders
Type
UnsubscribeConfirmation
"""  # noqa: E501
SUBSCRIBE_SIGNED = """\
Message
You have chosen to subscribe to the topic arn:aws:sns:eu-west-1:123456789012:orders.
To confirm the subscription, visit the SubscribeURL included in this message.
MessageId
165545c9-2a5c-472c-8df2-7ff2be2b3b1b
SubscribeURL
https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:eu-west-1:123456789012:orders&Token=2336412f37fb
Timestamp
2012-05-02T00:54:06.655Z
Token
2336412f37fb
TopicArn
arn:aws:sns:eu-west-1:123456789012:orders
Type
SubscriptionConfirmation
"""


@pytest.mark.spec(
    "sns-signature.text",
    "sns-signature.notification",
    "sns-signature.confirmation",
    "sns-signature.not-signed",
)
@pytest.mark.parametrize(
    ("body", "signed"),
    [
        (PLAIN_BODY, PLAIN_SIGNED),
        (FULL_BODY, FULL_SIGNED),
        (SUBSCRIBE_BODY, SUBSCRIBE_SIGNED),
        (UNSUBSCRIBE_BODY, UNSUBSCRIBE_SIGNED),
    ],
    ids=["plain", "full", "subscribe", "unsubscribe"],
)
def test_signed_text_as_a_receiver_rebuilds_it(body: str, signed: str) -> None:
    assert text_to_sign(json.loads(body)).decode() == signed


@pytest.mark.spec("sns-envelope.timestamp")
@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (MS, "2012-05-02T00:54:06.655Z"),
        (1335920046000, "2012-05-02T00:54:06.000Z"),
        (1335920046007, "2012-05-02T00:54:06.007Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (4102444799999, "2099-12-31T23:59:59.999Z"),
    ],
)
def test_timestamps(timestamp_ms: int, text: str) -> None:
    assert timestamp_text(timestamp_ms) == text


@pytest.mark.spec("sns-envelope.subscribe-url", "sns-envelope.unsubscribe-url")
def test_urls_are_not_escaped() -> None:
    assert (
        subscribe_url("http://h:1", "arn:t", "abc") == "http://h:1/?Action=ConfirmSubscription&TopicArn=arn:t&Token=abc"
    )
    assert unsubscribe_url("http://h:1", "arn:s") == "http://h:1/?Action=Unsubscribe&SubscriptionArn=arn:s"
