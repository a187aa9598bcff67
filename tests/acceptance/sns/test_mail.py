"""Mails through a real mail server: their content, and their fate when the server does not take them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_one
from tests.private_servers.mailing import MailService, html_of, mailing, new_address, text_of


@pytest.fixture(scope="module")
def mails(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailService]:
    with mailing(tmp_path_factory.mktemp("mailing")) as started:
        yield started


def failed_once(mails: MailService, arn: str, text: str) -> None:
    """Wait until an attempt has failed and the message waits in a queue for the next one."""
    wait_until(
        lambda: [
            one for one in mails.service.events("delivery_attempt.failed", subscription=arn) if text in one["text"]
        ],
        mails.service.said,
    )


def retried(mails: MailService, address: str) -> str:
    """Advance to the next attempt; return the text of the mail that arrives."""
    mails.service.advance(15)
    return text_of(mails.server.next(address))


@pytest.mark.spec("mail.address", "mail.from", "mail.subject", "mail.body", "mail.footer", "mail.footer-link")
def test_a_notification(mails: MailService) -> None:
    topic, address = mails.topic(DisplayName="Grüße, Shop"), new_address()
    arn = mails.subscribed(topic, address)
    published = topic.publish("Your order:\n  <1 x tea> – thank you", Subject="Bestellung 4711")
    mail = mails.server.next(address)
    assert mail["Subject"] == "Bestellung 4711"
    (sender,) = mail["From"].addresses
    assert (sender.display_name, sender.addr_spec) == ("Grüße, Shop", "no-reply@notifications.example.com")
    assert mail["Return-path"] == "<no-reply@notifications.example.com>"
    assert mail["Message-ID"] == f"<{published}.{arn.rpartition(':')[2]}@notifications.example.com>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    region, account, name = topic.arn.split(":")[3:6]
    assert mail["List-Id"] == f"<{name}.{account}.{region}.notifications.example.com>"
    text = text_of(mail)
    assert text.startswith("Your order:\n  <1 x tea> – thank you\n\n--\nIf you wish to stop receiving")
    link = f"{mails.service.url}/unsubscribe.html?SubscriptionArn={arn}&Endpoint={address.replace('@', '%40')}"
    assert f"\n{link}\n" in text
    assert "&lt;1 x tea&gt; – thank you" in html_of(mail)


def test_a_message_of_many_lines_and_256_kib(mails: MailService) -> None:
    topic, address = mails.topic(), new_address()
    mails.subscribed(topic, address)
    sent = "é." + ".\n" * 1_000 + "x" * 250_000
    topic.publish(sent)
    assert text_of(mails.server.next(address)).startswith(f"{sent}\n\n--\n")


@pytest.mark.spec("sns-retry.mail")
def test_a_mailbox_that_puts_off_gets_it_later(mails: MailService) -> None:
    topic, address = mails.topic(), new_address()
    arn = mails.subscribed(topic, address)
    mails.server.put_off(address, "450 4.2.0 greylisted: come again")
    topic.publish("patience")
    failed_once(mails, arn, "450 4.2.0 greylisted")
    (failure,) = mails.service.events("delivery_attempt.failed", subscription=arn)
    assert 10 <= failure["retry_in_s"] <= 11, "the first retry of AWS's fixed 50"
    mails.server.take_all()
    assert retried(mails, address).startswith("patience\n")


def test_while_the_mail_server_is_away_nothing_is_lost(mails: MailService) -> None:
    topic, addresses = mails.topic(), [new_address() for _ in range(3)]
    arns = [mails.subscribed(topic, address) for address in addresses]
    mails.server.stop()
    topic.publish("patience")
    for arn in arns:
        failed_once(mails, arn, "")
    mails.server.start()
    mails.service.advance(15)
    for address in addresses:
        assert text_of(mails.server.next(address)).startswith("patience\n")


def test_what_a_mailbox_refuses_goes_to_the_dead_letter_queue(mails: MailService) -> None:
    topic, address, sqs = mails.topic(), new_address(), mails.service.client("sqs")
    queue = queue_for(sqs, topic.arn)
    mails.subscribed(topic, address, **Topic.dead_letters_to(arn_of(sqs, queue)))
    mails.server.refuse(address, "550 5.1.1 no such mailbox")
    topic.publish("nobody")
    assert json.loads(receive_one(sqs, queue)["Body"])["Message"] == "nobody"
    assert mails.server.mails(address)[1:] == []


def test_a_relay_that_wants_another_login_loses_no_mail(mails: MailService) -> None:
    """Messages wait until the fault is mended, and then they go."""
    topic, address = mails.topic(), new_address()
    arn = mails.subscribed(topic, address)
    mails.server.refuse(address, "550 relay not permitted")
    topic.publish("patience")
    failed_once(mails, arn, "550 relay not permitted")
    mails.server.take_all()
    assert retried(mails, address).startswith("patience\n")


def test_its_password_is_said_nowhere(mails: MailService) -> None:
    said = mails.service.said()
    assert not re.search(r"p@ss|p%40ss", said)
