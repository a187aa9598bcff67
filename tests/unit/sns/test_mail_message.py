"""A mail's bytes, as the standard library reads them: its headers, its parts, and texts that must be in neither."""

from __future__ import annotations

import email
import email.policy
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.utils import parseaddr

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from cns.delivery.envelope import ConfirmationNotice, MessageType
from cns.mail.message import LINE_CHARS_MAX, Mail, list_name, to_bytes
from cns.mail.texts import confirmation_html, confirmation_page, notification_html, unsubscribe_page

TOPIC = "arn:aws:sns:eu-west-1:111111111111:orders"
ARN = f"{TOPIC}:f3352e12-8d94-4221-b76a-18de25ae5952"
LINK = unsubscribe_page("https://sns.example.com", ARN, "me+sns@example.com")
MAIL = Mail(
    sender_name="Shop",
    sender="no-reply@sns.example.com",
    recipient="me+sns@example.com",
    subject="Hello",
    sent_ms=1_700_000_000_999,
    id="de26b437-1295-5037-b6f9-d71a7eba9891.f3352e12-8d94-4221-b76a-18de25ae5952",
    text="hello\n",
    html="<p>hello</p>\n",
    unsubscribe_link=LINK,
    list_name=list_name(TOPIC),
)
HEADERS = [
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "Auto-Submitted",
    "List-Id",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "MIME-Version",
    "Content-Type",
]


def read(raw: bytes) -> EmailMessage:
    mail = email.message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(mail, EmailMessage)
    return mail


def content(mail: EmailMessage, subtype: str) -> str:
    part = mail.get_body((subtype,))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")


def test_what_a_mail_has() -> None:
    mail = read(to_bytes(MAIL))
    assert mail.keys() == HEADERS
    assert (mail["From"], mail["To"]) == ("Shop <no-reply@sns.example.com>", "me+sns@example.com")
    assert mail["Date"] == "Tue, 14 Nov 2023 22:13:20 +0000"
    assert mail["Message-ID"] == f"<{MAIL.id}@sns.example.com>"
    assert mail["List-Id"] == "<orders.111111111111.eu-west-1.sns.example.com>"
    assert mail["List-Unsubscribe"].strip() == f"<{LINK}>"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content_type() == "multipart/alternative"
    assert (content(mail, "plain"), content(mail, "html")) == ("hello\n", "<p>hello</p>\n")
    assert to_bytes(MAIL) == to_bytes(MAIL)


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"unsubscribe_link": LINK.replace("https:", "http:")}, {"List-Unsubscribe-Post"}),
        ({"unsubscribe_link": LINK + "x" * LINE_CHARS_MAX}, {"List-Unsubscribe", "List-Unsubscribe-Post"}),
        (
            {"unsubscribe_link": "", "list_name": ""},
            {"List-Id", "List-Unsubscribe", "List-Unsubscribe-Post"},
        ),
    ],
)
def test_what_a_mail_may_lack(changes: dict[str, str], missing: set[str]) -> None:
    """Headers that a mail may lack: RFC 8058 allows only https, and a header that is too long cannot be folded within
    an address."""
    mail = read(to_bytes(replace(MAIL, **changes)))
    assert set(HEADERS) - set(mail.keys()) == missing


def test_a_mail_for_programs_has_one_part() -> None:
    mail = read(to_bytes(replace(MAIL, html="", text='{"a": 1}\n')))
    assert (mail.get_content_type(), content(mail, "plain")) == ("text/plain", '{"a": 1}\n')


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100))
@example("a\r\nBcc: you@example.com")
@example("a\nBcc: you@example.com")
@example("a\r\n\r\nb")
@example("é\r\n" * 40)
def test_no_subject_and_no_name_becomes_another_header(text: str) -> None:
    raw = to_bytes(replace(MAIL, subject=text, sender_name=text))
    assert max(map(len, raw.split(b"\r\n"))) <= LINE_CHARS_MAX
    head = raw.partition(b"\r\n\r\n")[0]
    assert head.isascii()
    assert b"\n" not in head.replace(b"\r\n", b"")
    mail = read(raw)
    assert mail.keys() == HEADERS
    assert len(mail["From"].addresses) == 1
    assert mail["From"].addresses[0].addr_spec == MAIL.sender


@pytest.mark.parametrize(
    "text",
    [
        'Grüße, "Ihr" <Laden>',
        "注文 4711 の発送 🎉" * 5,
        "=?utf-8?q?not_encoded?=",
        'a "quoted" name, with <signs>\\',
        " blanks ",
        "x" * 100,
    ],
)
def test_subjects_and_names_arrive_as_they_were(text: str) -> None:
    mail = email.message_from_bytes(to_bytes(replace(MAIL, subject=text, sender_name=text)))
    name, address = parseaddr(mail["From"])
    assert [str(make_header(decode_header(found))) for found in (mail["Subject"], name)] == [text, text]
    assert address == MAIL.sender


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1, max_size=3_000))
def test_texts_arrive_as_they_were(text: str) -> None:
    text += "\n"
    raw = to_bytes(replace(MAIL, text=text, html=text))
    lines = raw.split(b"\r\n")
    assert max(map(len, lines)) <= LINE_CHARS_MAX
    assert raw.replace(b"\r\n", b"").find(b"\n") == -1
    assert raw.isascii() and b"\0" not in raw
    mail = read(raw)
    assert (content(mail, "plain"), content(mail, "html")) == (text, text)


@pytest.mark.parametrize("text", ["x" * 100_000, "\0", "日本" * 10_000, "é" + "x" * 5_000, "From me\n.\n..\n"])
def test_long_lines_and_other_letters(text: str) -> None:
    test_texts_arrive_as_they_were.hypothesis.inner_test(text)  # type: ignore[attr-defined]


def test_nothing_published_is_read_as_html() -> None:
    footer = "<i> Ask https://shop.example.com/?a=1&b=2, or http://x.example."
    shown = notification_html('<b>&amp;</b>\n  "two"  blanks', LINK, footer)
    assert "&lt;b&gt;&amp;amp;&lt;/b&gt;<br>\n&nbsp; &quot;two&quot;&nbsp; blanks" in shown
    assert f'<a href="{LINK.replace("&", "&amp;")}">Unsubscribe</a>' in shown
    url = "https://shop.example.com/?a=1&amp;b=2"
    assert f'<p>&lt;i&gt; Ask <a href="{url}">{url}</a>, or <a href="http://x.example">' in shown
    assert "<p>" not in notification_html("x", LINK, "").partition("Unsubscribe</a></p>")[2]


@pytest.mark.spec("mail.confirmation-html")
@pytest.mark.parametrize(
    ("kind", "button"),
    [
        (MessageType.SUBSCRIPTION_CONFIRMATION, "Confirm subscription"),
        (MessageType.UNSUBSCRIBE_CONFIRMATION, "Resubscribe"),
    ],
)
def test_a_confirmation_has_a_button(kind: MessageType, button: str) -> None:
    asked = ConfirmationNotice(type=kind, id="m", token="23", topic_arn=TOPIC, subscription_arn=ARN, timestamp_ms=5)
    link = confirmation_page("https://sns.example.com", TOPIC, "23", "o'brien&co@example.com")
    shown = confirmation_html(asked, link)
    assert f">{button}</a>" in shown
    assert f"<b>{TOPIC}</b>" in shown
    assert 'Token=23&amp;Endpoint=o%27brien%26co%40example.com"' in shown
