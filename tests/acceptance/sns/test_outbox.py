"""Deliveries to phones, functions, streams and mailboxes, which are kept in the outbox for a person to look at."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest

from cns_pytest.http import fetch
from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic
from tests.marks import extended

_LINK = re.compile(r"^http://\S+\.html\?\S+$", re.MULTILINE)


class Outbox:
    """As `cns outbox` shows it."""

    def __init__(self, service: Service, destination: str) -> None:
        self._service = service
        self._destination = destination
        self._seen: set[str] = set()

    def next(self) -> str:
        """Wait for one new message, and return the output of `show` for it."""
        found: list[str] = []

        def look() -> bool:
            lines = self._service.cns("outbox", "list", "--limit", "100").stdout.splitlines()
            ids = [line.split()[0] for line in lines if self._destination in line.split()]
            found[:] = [item_id for item_id in ids if item_id not in self._seen]
            return bool(found)

        wait_until(look, lambda: f"nothing came for {self._destination}")
        (item_id,) = found
        self._seen.add(item_id)
        return self._service.cns("outbox", "show", item_id).stdout


def follow(mail: str) -> bytes:
    """The page behind its link, once a reader has clicked the button there."""
    (link,) = _LINK.findall(mail)
    assert b'<form method="post"' in fetch(link)[1]
    status, page = fetch(link, b"")
    assert status == 200
    return page


def phone_endpoint(sns: Any, name: str) -> str:
    application = sns.create_platform_application(Name=name, Platform="GCM", Attributes={"PlatformCredential": "key"})[
        "PlatformApplicationArn"
    ]
    created = sns.create_platform_endpoint(PlatformApplicationArn=application, Token=uuid.uuid4().hex)
    return str(created["EndpointArn"])


def test_a_text_message(service: Service, topic: Topic) -> None:
    number = f"+1555{uuid.uuid4().int % 10**7:07}"
    topic.set("DisplayName", "Shop")
    subscription = topic.subscribe("sms", number)
    topic.publish("hello")
    shown = Outbox(service, number).next()
    assert shown.endswith("\n\nShop> hello\n")
    assert f"protocol: sms\ndestination: {number}\ntopic: {topic.arn}\nsubscription: {subscription}\n" in shown


def test_messages_to_a_number_and_to_a_mobile_endpoint_themselves(service: Service, sns: Any, new_name: Any) -> None:
    number = f"+1555{uuid.uuid4().int % 10**7:07}"
    published = sns.publish(PhoneNumber=number, Message="only you")["MessageId"]
    shown = Outbox(service, number).next()
    assert f"message id: {published}\n" in shown and shown.endswith("\n\nonly you\n")
    phone = phone_endpoint(sns, new_name())
    texts = {"default": "d", "GCM": '{"notification":{"title":"t"}}'}
    sns.publish(TargetArn=phone, Message=json.dumps(texts), MessageStructure="json")
    assert Outbox(service, phone).next().endswith(f"\n\n{texts['GCM']}\n")


def test_a_function_and_a_stream(service: Service, sns: Any, topic: Topic, new_name: Any) -> None:
    region, account = topic.arn.split(":")[3:5]
    function = f"arn:aws:lambda:{region}:{account}:function:{new_name()}"
    stream = f"arn:aws:firehose:{region}:{account}:deliverystream/{new_name()}"
    role = f"arn:aws:iam::{account}:role/sns"
    of_function = topic.subscribe("lambda", function)
    topic.subscribe("firehose", stream, SubscriptionRoleArn=role)
    attributes = {"n": {"DataType": "Number", "StringValue": "1.0"}}
    topic.publish("m", Subject="s", MessageAttributes=attributes)
    (record,) = json.loads(Outbox(service, function).next().partition("\n\n")[2])["Records"]
    assert record["EventSubscriptionArn"] == of_function
    assert (record["Sns"]["Subject"], record["Sns"]["MessageAttributes"]) == (
        "s",
        {"n": {"Type": "String", "Value": "1.0"}},
    )
    line = json.loads(Outbox(service, stream).next().partition("\n\n")[2])
    assert (line["Message"], line["MessageAttributes"]) == ("m", {"n": {"Type": "Number", "Value": "1.0"}})
    assert "Signature" not in line


def test_a_mobile_endpoint_of_a_topic(service: Service, sns: Any, topic: Topic, new_name: Any) -> None:
    phone = phone_endpoint(sns, new_name())
    topic.subscribe("application", phone)
    topic.publish("for all")
    assert Outbox(service, phone).next().endswith("\n\nfor all\n")


@pytest.mark.spec(
    "consent.restored",
    "mail.asked",
    "mail.confirmation-from",
    "mail.confirmation-subject",
    "mail.confirmation-link",
    "mail.from",
    "mail.body",
    "mail.footer-link",
    "mail.farewell",
)
@pytest.mark.parametrize("protocol", ["email", *extended("email-json")])
def test_a_mailbox_is_asked_told_and_asked_again(service: Service, topic: Topic, protocol: str) -> None:
    address = f"{uuid.uuid4().hex}@example.com"
    topic.set("DisplayName", "Shop")
    assert topic.request_subscription(protocol, address) == "pending confirmation"
    mailbox = Outbox(service, address)
    asked = mailbox.next()
    assert "from: Notifications\nsubject: AWS Notification - Subscription Confirmation\n" in asked
    assert b"Subscription confirmed!" in follow(asked)
    topic.publish("hello", Subject="news")
    mail = mailbox.next()
    assert "from: Shop\nsubject: news\n" in mail
    text = mail.partition("\n\n")[2].partition("\n\n--\n")[0]
    assert (json.loads(text)["Message"] if protocol == "email-json" else text) == "hello"
    assert b"You are unsubscribed" in follow(mail)
    topic.publish("nobody hears this")
    regretted = mailbox.next()
    assert "subject: AWS Notification - Unsubscribe Confirmation\n" in regretted
    assert b"Subscription confirmed!" in follow(regretted)
    topic.publish("and again")
    assert "and again" in mailbox.next()


@pytest.mark.spec("mail.rate")
def test_a_flood_of_mails_suspends_the_subscription(service: Service, sns: Any, topic: Topic) -> None:
    address = f"{uuid.uuid4().hex}@example.com"
    topic.request_subscription("email", address)
    follow(Outbox(service, address).next())

    def dropped() -> float:
        return service.metric("cns_notifications_dropped_total", cause="permanent:mail_rate")

    def listed() -> list[str]:
        found = sns.list_subscriptions_by_topic(TopicArn=topic.arn)["Subscriptions"]
        return [each["SubscriptionArn"] for each in found]

    def flood() -> bool:
        entries = [{"Id": str(n), "Message": str(n)} for n in range(10)]
        sns.publish_batch(TopicArn=topic.arn, PublishBatchRequestEntries=entries)
        return listed() == ["PendingConfirmation"]

    before = dropped()
    wait_until(flood, lambda: str(listed()))
    wait_until(lambda: dropped() > before)


def test_what_is_not_there_is_said(service: Service) -> None:
    done = service.cns("outbox", "show", "absent", check=False)
    assert (done.returncode, done.stderr) == (1, "cns: there is no absent in the outbox\n")
