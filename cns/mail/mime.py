"""A mail as it is sent: headers and parts, by hand, because the standard library's writer takes milliseconds a mail.

The same mail has the same bytes, and the same Message-ID, at every attempt: whoever gets it twice can tell.
"""

from __future__ import annotations

import re
from base64 import encodebytes
from binascii import b2a_qp
from datetime import UTC, datetime
from email.header import Header
from email.utils import format_datetime, formataddr

import msgspec

LINE_CHARS_MAX = 998
"""RFC 5322: longer lines may be cut."""
ONE_CLICK = "List-Unsubscribe=One-Click"
"""RFC 8058: what a mailbox's own unsubscribe button posts."""
LIST_NAME_CHARS_MAX = 128

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """`unsubscribe_link` and `list_name` are those of notifications; `html` may be missing."""

    sender_name: str
    sender: str
    recipient: str
    subject: str
    sent_ms: int
    id: str
    text: str
    html: str = ""
    unsubscribe_link: str = ""
    list_name: str = ""


def render(letter: Letter) -> bytes:
    headers = [
        ("From", _mailbox(letter.sender_name, letter.sender)),
        ("To", _line(letter.recipient)),
        ("Subject", _text(letter.subject, "Subject")),
        ("Date", format_datetime(datetime.fromtimestamp(letter.sent_ms // 1000, UTC))),
        ("Message-ID", f"<{letter.id}@{domain_of(letter.sender)}>"),
        ("Auto-Submitted", "auto-generated"),
        *_list_headers(letter),
        ("MIME-Version", "1.0"),
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in headers).encode("ascii")
    return head + (_alternatives(letter) if letter.html else _part("plain", letter.text))


def domain_of(address: str) -> str:
    return address.rpartition("@")[2]


def list_name(topic_arn: str) -> str:
    """A topic as a mailing list: name, account and region, without the service's own domain."""
    region, account, name = topic_arn.split(":")[3:6]
    return f"{name[:LIST_NAME_CHARS_MAX]}.{account}.{region}"


# -- headers ----------------------------------------------------------------------------------------------------------


def _list_headers(letter: Letter) -> list[tuple[str, str]]:
    headers = []
    if letter.list_name:
        headers.append(("List-Id", f"<{letter.list_name}.{domain_of(letter.sender)}>"))
    link = letter.unsubscribe_link
    if link and len(link) < LINE_CHARS_MAX - 2:  # it cannot be folded
        headers.append(("List-Unsubscribe", f"\r\n <{_line(link)}>"))
        if link.startswith("https://"):  # RFC 8058 knows no other
            headers.append(("List-Unsubscribe-Post", ONE_CLICK))
    return headers


def _mailbox(name: str, address: str) -> str:
    clean = _line(name)
    if _is_plain(clean):
        return formataddr((clean, address))
    return f"{_text(clean, 'From')} <{address}>"


def _text(text: str, header: str) -> str:
    clean = _line(text)
    if _is_plain(clean):
        return clean
    return Header(clean, "utf-8", header_name=header).encode(linesep="\r\n")


def _line(text: str) -> str:
    """Nothing that could end a header and begin another."""
    return _CONTROL.sub(" ", text)


def _is_plain(text: str) -> bool:
    """As it stands it will be read as it stands: blanks at an end would be lost, and `=?` be decoded."""
    return text.isascii() and text.strip() == text and "=?" not in text


# -- parts ------------------------------------------------------------------------------------------------------------


def _alternatives(letter: Letter) -> bytes:
    """The boundary has the message's id, which nobody knew who wrote the text."""
    boundary = f"=_{letter.id}"[:70].encode("ascii")
    parts = (_part("plain", letter.text), _part("html", letter.html))
    head = b'Content-Type: multipart/alternative; boundary="%b"\r\n\r\n' % boundary
    return head + b"".join(b"--%b\r\n%b\r\n" % (boundary, part) for part in parts) + b"--%b--\r\n" % boundary


def _part(subtype: str, text: str) -> bytes:
    encoding, body = _encoded(text.replace("\r\n", "\n").replace("\r", "\n").encode())
    head = f'Content-Type: text/{subtype}; charset="utf-8"\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n'
    return head.encode("ascii") + body.replace(b"\n", b"\r\n")


def _encoded(body: bytes) -> tuple[str, bytes]:
    """As it is where a relay takes that, else the shorter of the two ways to wrap it."""
    if body.isascii() and b"\0" not in body and max(map(len, body.split(b"\n"))) <= LINE_CHARS_MAX:
        return "7bit", body
    wrapped = encodebytes(body.replace(b"\n", b"\r\n"))
    return min(("quoted-printable", b2a_qp(body, istext=True)), ("base64", wrapped), key=_length)


def _length(way: tuple[str, bytes]) -> int:
    return len(way[1])
