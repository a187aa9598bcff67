"""Bodies for functions, streams, phones and mailboxes, as recorded from AWS; and the gateway's request."""

from __future__ import annotations

import json
from functools import cache

import pytest
from msgspec.structs import replace

from cns.delivery.envelope import ConfirmationNotice, MessageType, verify_body
from cns.delivery.gateway import Gateway
from cns.delivery.outbox import item_id
from cns.delivery.payloads import PayloadRenderer
from cns.delivery.retry_policy import MAIL_POLICY
from cns.delivery.signing import Signer, new_identity, verify
from cns.delivery.target import Target
from cns.mail.texts import MailBranding
from cns.notification import Notification

TOPIC = "arn:aws:sns:us-east-1:000000000000:stackd-xfh-60e2908fd0-cross"
SUBSCRIPTION = f"{TOPIC}:f3352e12-8d94-4221-b76a-18de25ae5952"
BASE_URL = "https://sns.us-east-1.amazonaws.com"
STREAM = "arn:aws:firehose:us-east-1:917546008205:deliverystream/stackd-xfh-60e2908fd0"
PHONE = "arn:aws:sns:us-east-1:000000000000:endpoint/GCM/app/6ab180b4-f6c7-4ab5-8747-757d1d466e12"
NOTIFICATION = Notification(
    id="de26b437-1295-5037-b6f9-d71a7eba9891",
    topic_arn=TOPIC,
    timestamp_ms=1_790_142_960_086,
    texts={
        "default": '{"probe":"stackd-xfh-60e2908fd0","case":"source-account-A",'
        '"nonce":"5ddf9037915143159e84f14c24d0b9c0"}'
    },
)
ATTRIBUTES = {
    "text": ("String", "retained string"),
    "number": ("Number", "0001.23000"),
    "list": ("String.Array", '["a"]'),
    "own": ("Number.int", "7"),
    "binary": ("Binary.gif", "AAEC/2JpbmFyeQ=="),
}


WORDS = MailBranding(sender_name="The Shop", footer="Questions? Ask https://shop.example.com/help.")


@cache
def signer() -> Signer:
    return Signer(new_identity(1_700_000_000_000))


def forms() -> PayloadRenderer:
    return PayloadRenderer(signer(), BASE_URL, WORDS)


def target(protocol: str, endpoint: str, *, raw: bool = False, display_name: str = "") -> Target:
    return Target(
        arn=SUBSCRIPTION,
        protocol=protocol,
        endpoint=endpoint,
        confirmed=True,
        raw=raw,
        retry=MAIL_POLICY,
        content_type="",
        dead_letter_arn="",
        signature_version="1",
        account="000000000000",
        region="us-east-1",
        display_name=display_name,
    )


def test_a_firehose_record_is_a_line() -> None:
    """As long as what AWS wrote into a bucket for this message."""
    body = forms().notification(target("firehose", STREAM), NOTIFICATION).body
    assert len(body) == 508
    assert body.endswith("}\n") and body.count("\n") == 1
    record = json.loads(body)
    assert list(record) == ["Type", "MessageId", "TopicArn", "Message", "Timestamp", "UnsubscribeURL"]
    assert record["UnsubscribeURL"] == f"{BASE_URL}/?Action=Unsubscribe&SubscriptionArn={SUBSCRIPTION}"


def test_a_firehose_record_with_all_that_can_be_in_it() -> None:
    full = replace(NOTIFICATION, subject="s", attributes=ATTRIBUTES)
    record = json.loads(forms().notification(target("firehose", STREAM), full).body)
    assert record["Subject"] == "s"
    assert record["MessageAttributes"]["list"] == {"Type": "String.Array", "Value": '["a"]'}


def test_a_raw_firehose_record_is_the_message() -> None:
    assert (
        forms().notification(target("firehose", STREAM, raw=True), NOTIFICATION).body == NOTIFICATION.texts["default"]
    )


def test_a_function_is_invoked_with_an_event() -> None:
    structured = replace(NOTIFICATION, texts={"default": "d", "lambda": "for functions"}, attributes=ATTRIBUTES)
    item = forms().notification(target("lambda", "arn:aws:lambda:us-east-1:000000000000:function:f"), structured)
    (record,) = json.loads(item.body)["Records"]
    sns = record.pop("Sns")
    assert record == {"EventSource": "aws:sns", "EventVersion": "1.0", "EventSubscriptionArn": SUBSCRIPTION}
    assert list(sns) == [
        "Type",
        "MessageId",
        "TopicArn",
        "Message",
        "Timestamp",
        "SignatureVersion",
        "Signature",
        "SigningCertUrl",
        "Subject",
        "UnsubscribeUrl",
        "MessageAttributes",
    ]
    assert (sns["Message"], sns["Subject"], item.message) == ("for functions", None, "for functions")
    assert sns["MessageAttributes"] == {
        "text": {"Type": "String", "Value": "retained string"},
        "number": {"Type": "String", "Value": "0001.23000"},
        "list": {"Type": "String", "Value": '["a"]'},
        "own": {"Type": "String", "Value": "7"},
        "binary": {"Type": "Binary", "Value": "AAEC/2JpbmFyeQ=="},
    }
    assert sns["SigningCertUrl"] == f"{BASE_URL}/{signer().certificate_name}"
    signed = {name: value for name, value in sns.items() if isinstance(value, str)}
    assert verify_body(signed, signer().certificate_pem)


def test_a_function_is_told_of_no_attributes_too() -> None:
    (record,) = json.loads(forms().notification(target("lambda", "f"), NOTIFICATION).body)["Records"]
    assert record["Sns"]["MessageAttributes"] == {}


@pytest.mark.spec("quota.sms-chars")
@pytest.mark.parametrize(
    ("display_name", "text", "sent"),
    [
        ("", "hello", "hello"),
        ("Shop", "hello", "Shop> hello"),
        ("A long display name", "hello", "A long dis> hello"),
        ("", "x" * 2_000, "x" * 1_600),
        ("Shop", "x" * 2_000, "Shop> " + "x" * 1_594),
    ],
)
def test_text_messages(display_name: str, text: str, sent: str) -> None:
    item = forms().notification(
        target("sms", "+15551234567", display_name=display_name), replace(NOTIFICATION, texts={"default": text})
    )
    assert (item.body, item.message, item.destination) == (sent, text, "+15551234567")


def test_a_mobile_endpoint_gets_the_text_for_its_platform() -> None:
    structured = replace(NOTIFICATION, texts={"default": "d", "GCM": "for phones"}, structured=True)
    item = forms().notification(target("application", PHONE), structured)
    assert (item.body, item.message, item.structured) == ("for phones", "for phones", True)


@pytest.mark.spec("mail.from", "mail.subject", "mail.body", "mail.footer")
def test_a_mail() -> None:
    item = forms().notification(target("email", "me+sns@example.com"), NOTIFICATION)
    assert (item.sender, item.subject) == ("The Shop", "AWS Notification Message")
    assert item.body == (
        f"{NOTIFICATION.texts['default']}\n\n--\n"
        "If you wish to stop receiving notifications from this topic, please click or visit the link below to "
        "unsubscribe:\n"
        f"{BASE_URL}/unsubscribe.html?SubscriptionArn={SUBSCRIPTION}&Endpoint=me%2Bsns%40example.com\n\n"
        "Questions? Ask https://shop.example.com/help.\n"
    )


@pytest.mark.spec("mail.footer")
def test_a_mail_without_a_footer() -> None:
    bare = PayloadRenderer(signer(), BASE_URL, replace(WORDS, footer=""))
    item = bare.notification(target("email", "me@example.com"), NOTIFICATION)
    assert item.body.endswith("&Endpoint=me%40example.com\n")


@pytest.mark.spec("mail.from", "mail.subject")
def test_a_mail_from_a_topic_with_a_name() -> None:
    named = target("email", "me@example.com", display_name="Shop")
    item = forms().notification(named, replace(NOTIFICATION, subject="Hello"))
    assert (item.sender, item.subject) == ("Shop", "Hello")


@pytest.mark.spec("mail.json")
def test_a_json_mail_is_the_envelope_up_to_the_footer() -> None:
    item = forms().notification(target("email-json", "me@example.com"), NOTIFICATION)
    envelope = json.loads(item.body.partition("\n\n--\n")[0])
    assert envelope["Message"] == NOTIFICATION.texts["default"]
    assert verify_body(envelope, signer().certificate_pem)
    page = f"{BASE_URL}/unsubscribe.html?SubscriptionArn={SUBSCRIPTION}&Endpoint=me%40example.com"
    assert envelope["UnsubscribeURL"] == page, "scanners follow every link of a mail"


@pytest.mark.spec("mail.structure")
def test_each_kind_of_mail_has_its_own_text() -> None:
    structured = replace(
        NOTIFICATION, texts={"default": "d", "email": "for readers", "email-json": "for programs"}, structured=True
    )
    read, parsed = (
        forms().notification(target(name, "me@example.com"), structured) for name in ("email", "email-json")
    )
    assert read.body.startswith("for readers\n\n--\n")
    assert json.loads(parsed.body.partition("\n\n--\n")[0])["Message"] == "for programs"


@pytest.mark.spec("mail.confirmation-from", "mail.confirmation-subject")
@pytest.mark.parametrize("protocol", ["email", "email-json"])
@pytest.mark.parametrize(
    ("kind", "subject", "beginning"),
    [
        (
            MessageType.SUBSCRIPTION_CONFIRMATION,
            "AWS Notification - Subscription Confirmation",
            "You have chosen to subscribe to the topic:",
        ),
        (
            MessageType.UNSUBSCRIBE_CONFIRMATION,
            "AWS Notification - Unsubscribe Confirmation",
            "Your subscription to the topic below has been deactivated:",
        ),
    ],
)
def test_a_confirmation_mail_has_the_link(protocol: str, kind: MessageType, subject: str, beginning: str) -> None:
    """It never comes from the topic's name: whoever made the topic chose that."""
    asked = target(protocol, "me@example.com", display_name="Your Bank")
    item = forms().confirmation(asked, confirmation(kind), "http://localhost:6059")
    assert (item.sender, item.subject, item.message) == ("The Shop", subject, "")
    assert item.body.startswith(beginning)
    assert TOPIC in item.body.split("\n")
    link = f"http://localhost:6059/confirmation.html?TopicArn={TOPIC}&Token=2336ab&Endpoint=me%40example.com"
    assert link in item.body.split("\n")


@pytest.mark.spec("mail.confirmation-text")
def test_what_a_confirmation_mail_says() -> None:
    asked = forms().confirmation(
        target("email", "me@example.com"), confirmation(MessageType.SUBSCRIPTION_CONFIRMATION), BASE_URL
    )
    assert [line.rstrip() for line in asked.body.split("\n")] == [
        "You have chosen to subscribe to the topic:",
        TOPIC,
        "",
        "To confirm this subscription, click or visit the link below (If this was in error no action is necessary):",
        f"{BASE_URL}/confirmation.html?TopicArn={TOPIC}&Token=2336ab&Endpoint=me%40example.com",
        "",
    ]


def test_other_confirmations_are_signed_documents() -> None:
    item = forms().confirmation(
        target("lambda", "f"), confirmation(MessageType.SUBSCRIPTION_CONFIRMATION), "http://localhost:6059"
    )
    assert verify_body(json.loads(item.body), signer().certificate_pem)


def test_the_same_delivery_has_the_same_id_and_ids_rise_with_time() -> None:
    first, again = (forms().notification(target("sms", "+1555"), NOTIFICATION).id for _ in range(2))
    later = forms().notification(target("sms", "+1555"), replace(NOTIFICATION, timestamp_ms=1_790_142_960_087)).id
    other = item_id(NOTIFICATION.timestamp_ms, NOTIFICATION.id, "another subscription")
    assert first == again != other
    assert first < later


def test_a_gateway_is_posted_the_item_and_can_tell_who_posts() -> None:
    item = forms().notification(target("sms", "+1555"), replace(NOTIFICATION, attributes=ATTRIBUTES))
    gateway = Gateway("https://gateway.example.com/sns", signer(), BASE_URL)
    request = gateway.request(item)
    assert request == gateway.request(item)
    assert request.url == "https://gateway.example.com/sns"
    document = json.loads(request.body)
    assert (document["protocol"], document["destination"], document["body"]) == ("sms", "+1555", item.body)
    assert document["attributes"]["number"] == ["Number", "0001.23000"]
    assert request.headers["x-cns-delivery-id"] == document["id"]
    assert verify(request.body, request.headers["x-cns-signature"], "2", signer().certificate_pem)


def confirmation(kind: MessageType) -> ConfirmationNotice:
    return ConfirmationNotice(
        type=kind, id="m", token="2336ab", topic_arn=TOPIC, subscription_arn=SUBSCRIPTION, timestamp_ms=5
    )
