"""The pages that links in mails open: a button, and nothing else, confirms, unsubscribes or undoes that."""

from __future__ import annotations

import uuid
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from cns_pytest.http import fetch
from tests.acceptance.topics import Topic, arn_of, queue_for
from tests.private_servers.mailing import MailService, button_of, new_address

ONE_CLICK = b"List-Unsubscribe=One-Click"
FORM = {"content-type": "application/x-www-form-urlencoded"}
MULTIPART = b'--x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--x--\r\n'
UNKNOWN = "f3352e12-8d94-4221-b76a-18de25ae5952"


@pytest.fixture
def ca_file(mails: MailService) -> Path:
    assert mails.service.ca_file is not None
    return mails.service.ca_file


def states(topic: Topic) -> list[str]:
    """Listed in place of the ARN of an unconfirmed subscription."""
    arns = [one["SubscriptionArn"] for one in topic.subscriptions()]
    return ["Confirmed" if arn.startswith("arn:") else arn for arn in arns]


def scan(url: str, ca_file: Path) -> None:
    """Fetch the link, as mail filters do before anybody reads the mail."""
    for method in ("HEAD", "GET"):
        assert fetch(url, method=method, ca_file=ca_file)[0] == 200


def is_readable(page: Page) -> None:
    """Check that nothing is wider than the screen of a phone."""
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.spec("mail.confirmation-html", "mail.confirmed-page", "mail.confirmation-link", "mail.footer-link")
@pytest.mark.slice
def test_a_reader_confirms_leaves_and_comes_back(mails: MailService, page: Page, ca_file: Path) -> None:
    topic, address = mails.topic(DisplayName="Shop"), new_address()
    assert topic.request_subscription("email", address) == "pending confirmation"
    asked = mails.server.next(address)
    assert asked["From"] == "Notifications <no-reply@notifications.example.com>"
    assert asked["Subject"] == "AWS Notification - Subscription Confirmation"
    link = button_of(asked)
    scan(link, ca_file)
    page.goto(link)
    expect(page.get_by_role("heading")).to_have_text("Confirm your subscription")
    expect(page.get_by_text(topic.arn)).to_be_visible()
    expect(page.get_by_text(address)).to_be_visible()
    is_readable(page)
    assert states(topic) == ["PendingConfirmation"]
    page.get_by_role("button", name="Confirm subscription").click()
    expect(page.get_by_role("heading")).to_have_text("Subscription confirmed!")
    (subscription,) = [one["SubscriptionArn"] for one in topic.subscriptions()]
    expect(page.get_by_text(subscription)).to_be_visible()
    is_readable(page)

    topic.publish("hello", Subject="news")
    link = button_of(mails.server.next(address))
    scan(link, ca_file)
    page.goto(link)
    expect(page.get_by_role("heading")).to_have_text("Unsubscribe?")
    is_readable(page)
    assert states(topic) == ["Confirmed"]
    page.get_by_role("button", name="Unsubscribe").click()
    expect(page.get_by_role("heading")).to_have_text("You are unsubscribed")
    is_readable(page)
    assert states(topic) == ["Deleted"]
    farewell = mails.server.next(address)
    assert farewell["Subject"] == "AWS Notification - Unsubscribe Confirmation"
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading")).to_have_text("Subscription confirmed!")
    topic.publish("and again")
    assert "and again" in mails.server.next(address).as_string()

    page.get_by_role("link", name="click here to unsubscribe.").click()
    assert states(topic) == ["Confirmed"]
    page.get_by_role("button", name="Unsubscribe").click()
    mails.server.next(address)
    page.goto(button_of(farewell))
    expect(page.get_by_role("heading")).to_have_text("Subscribe again?")
    assert states(topic) == ["Deleted"]
    page.get_by_role("button", name="Subscribe again").click()
    assert states(topic) == ["Confirmed"]


@pytest.mark.spec("mail.one-click")
@pytest.mark.parametrize(
    ("body", "headers"),
    [(ONE_CLICK, FORM), (MULTIPART, {"content-type": "multipart/form-data; boundary=x"})],
    ids=["urlencoded", "multipart"],
)
def test_a_mailbox_s_own_button_unsubscribes(
    mails: MailService, ca_file: Path, body: bytes, headers: dict[str, str]
) -> None:
    topic, address = mails.topic(), new_address()
    mails.subscribed(topic, address)
    topic.publish("hello")
    mail = mails.server.next(address)
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    link = mail["List-Unsubscribe"].strip("<> ")
    scan(link, ca_file)
    assert states(topic) == ["Confirmed"]
    for _ in range(2):
        assert fetch(link, body, headers, ca_file=ca_file) == (200, b"Unsubscribed.\n")
        assert states(topic) == ["Deleted"]
    assert mails.server.next(address)["Subject"] == "AWS Notification - Unsubscribe Confirmation"


@pytest.mark.spec("mail.protected")
def test_a_protected_subscription_stays(mails: MailService, page: Page, ca_file: Path) -> None:
    topic, address = mails.topic(), new_address()
    topic.request_subscription("email", address)
    link = button_of(mails.server.next(address))
    token = link.partition("Token=")[2].partition("&")[0]
    arn = topic.sns.confirm_subscription(TopicArn=topic.arn, Token=token, AuthenticateOnUnsubscribe="true")[
        "SubscriptionArn"
    ]
    leaving = f"{mails.service.url}/unsubscribe.html?SubscriptionArn={arn}&Endpoint={address}"
    assert fetch(leaving, ONE_CLICK, FORM, ca_file=ca_file)[0] == 403
    answer = page.goto(leaving)
    assert answer is not None and answer.status == 403
    expect(page.get_by_role("heading")).to_have_text("This link cannot unsubscribe")
    is_readable(page)
    assert states(topic) == ["Confirmed"]


def test_a_link_to_what_is_no_mailbox_does_nothing(mails: MailService, sqs_arn: str, ca_file: Path) -> None:
    topic = mails.topic()
    arn = topic.subscribe("sqs", sqs_arn)
    leaving = f"{mails.service.url}/unsubscribe.html?SubscriptionArn={arn}&Endpoint={sqs_arn}"
    assert fetch(leaving, ONE_CLICK, FORM, ca_file=ca_file)[0] == 403
    assert states(topic) == ["Confirmed"]


@pytest.fixture
def sqs_arn(mails: MailService) -> str:
    sqs = mails.service.client("sqs")
    return arn_of(sqs, queue_for(sqs))


def test_who_knows_the_arn_alone_does_nothing(mails: MailService, ca_file: Path) -> None:
    topic, address = mails.topic(), new_address()
    arn = mails.subscribed(topic, address)
    for other in ("", "&Endpoint=other@example.com"):
        leaving = f"{mails.service.url}/unsubscribe.html?SubscriptionArn={arn}{other}"
        assert fetch(leaving, ONE_CLICK, FORM, ca_file=ca_file)[0] == 200
    assert states(topic) == ["Confirmed"]


@pytest.mark.parametrize(
    ("path", "status", "heading"),
    [
        ("confirmation.html", 404, "This link does not work"),
        ("confirmation.html?TopicArn=x&Token=2336", 404, "This link does not work"),
        ("confirmation.html?Token=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", 404, "This link does not work"),
        ("unsubscribe.html", 404, "This link does not work"),
        ("unsubscribe.html?SubscriptionArn=%22%3E%3Cscript%3E", 404, "This link does not work"),
        (f"unsubscribe.html?SubscriptionArn=arn:aws:sns:a:000000000000:t:{UNKNOWN}", 200, "You are unsubscribed"),
    ],
)
def test_a_link_that_is_broken_says_so(mails: MailService, page: Page, path: str, status: int, heading: str) -> None:
    answer = page.goto(f"{mails.service.url}/{path}")
    assert answer is not None and answer.status == status
    expect(page.get_by_role("heading")).to_have_text(heading)
    expect(page.get_by_role("button")).to_have_count(0)
    is_readable(page)


@pytest.mark.spec("mail.expired")
def test_a_link_is_good_for_two_days(mails: MailService, page: Page) -> None:
    topic, address = mails.topic(), new_address()
    topic.request_subscription("email", address)
    link = button_of(mails.server.next(address))
    page.goto(link)
    mails.service.advance(48 * 3_600 + 1)
    page.get_by_role("button", name="Confirm subscription").click()
    expect(page.get_by_role("heading")).to_have_text("This link does not work")
    answer = page.goto(link)
    assert answer is not None and answer.status == 404


def test_what_a_link_says_is_shown_as_text(mails: MailService, page: Page, ca_file: Path) -> None:
    """An address may contain characters that mean something in HTML."""
    topic = mails.topic()
    address = f"o'brien&lt{uuid.uuid4().hex[:20]}@example.com"
    topic.request_subscription("email", address)
    link = button_of(mails.server.next(address))
    page.goto(f"{link}&more=\"'<b>")
    expect(page.get_by_text(address)).to_be_visible()
    assert page.locator("b").count() == 0
    page.get_by_role("button", name="Confirm subscription").click()
    assert states(topic) == ["Confirmed"]


@pytest.mark.slice
def test_a_page_lets_nothing_in(mails: MailService, page: Page) -> None:
    answer = page.goto(f"{mails.service.url}/confirmation.html")
    assert answer is not None
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert set(policy) == {"default-src", "style-src", "form-action", "base-uri", "frame-ancestors"}
    assert policy["style-src"].startswith("'sha256-") and policy["form-action"] == "'self'"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    # the content security policy has the hash of this style, or the page would be unstyled
    assert page.evaluate("getComputedStyle(document.querySelector('main')).borderRadius") == "12px"
    assert urlsplit(page.url).scheme == "https"


@pytest.mark.spec("consent.confirm-xml", "consent.unsubscribe-unsigned")
def test_the_api_s_own_links_go_on_acting(mails: MailService, ca_file: Path) -> None:
    """Links in notifications to web endpoints work without a button: programs follow them."""
    topic, address = mails.topic(), new_address()
    topic.request_subscription("email", address)
    link = button_of(mails.server.next(address))
    status, answer = fetch(link.replace("confirmation.html?", "?Action=ConfirmSubscription&"), ca_file=ca_file)
    assert (status, b"<ConfirmSubscriptionResult>" in answer) == (200, True)
    (arn,) = [one["SubscriptionArn"] for one in topic.subscriptions()]
    assert fetch(f"{mails.service.url}/?Action=Unsubscribe&SubscriptionArn={arn}", ca_file=ca_file)[0] == 200
    assert states(topic) == ["Deleted"]
