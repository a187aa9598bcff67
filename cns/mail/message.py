"""Build a mail: its headers, and its text and HTML parts.

The same mail has the same bytes at every attempt, Message-ID and boundary included, so that a receiver can recognise
a repetition.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.contentmanager import raw_data_manager
from email.header import Header
from email.message import EmailMessage
from email.policy import compat32
from email.utils import format_datetime, formataddr

import msgspec

LINE_CHARS_MAX = 998
"""RFC 5322: longer lines may be cut."""
ONE_CLICK = "List-Unsubscribe=One-Click"
"""RFC 8058: the form that a mailbox's own unsubscribe button posts."""
LIST_NAME_CHARS_MAX = 128
BOUNDARY_CHARS_MAX = 70

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")

# The library's newer policies decode subjects that look like encoded words, and encode links longer than a line.
_BODY_POLICY = compat32.clone(linesep="\r\n", max_line_length=76, cte_type="7bit")
_HEAD_POLICY = _BODY_POLICY.clone(max_line_length=LINE_CHARS_MAX)
"""Header lines are not folded further: some receivers do not unfold a Message-ID."""


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """`text` and `html` end with a newline; `html` may be empty.

    `unsubscribe_link` and `list_name` are set for notifications, and empty for confirmations.
    """

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


def to_bytes(mail: Mail) -> bytes:
    message = EmailMessage(_BODY_POLICY)
    message["From"] = _mailbox(mail.sender_name, mail.sender)
    message["To"] = _line(mail.recipient)
    message["Subject"] = _header_text(mail.subject, "Subject")
    message["Date"] = format_datetime(datetime.fromtimestamp(mail.sent_ms // 1000, UTC))
    message["Message-ID"] = f"<{mail.id}@{domain_of(mail.sender)}>"
    message["Auto-Submitted"] = "auto-generated"
    _add_list_headers(message, mail)
    message["MIME-Version"] = "1.0"
    if mail.html:
        message.make_alternative(boundary=f"=_{mail.id}"[:BOUNDARY_CHARS_MAX])  # no author of a text knows the id
        _add_text(message.add_alternative, mail.text, "plain")
        _add_text(message.add_alternative, mail.html, "html")
    else:
        _add_text(message.set_content, mail.text, "plain")
    return message.as_bytes(policy=_HEAD_POLICY)


def domain_of(address: str) -> str:
    return address.rpartition("@")[2]


def list_name(topic_arn: str) -> str:
    """A topic as a mailing list: name, account and region, without the service's own domain."""
    region, account, name = topic_arn.split(":")[3:6]
    return f"{name[:LIST_NAME_CHARS_MAX]}.{account}.{region}"


def _add_list_headers(message: EmailMessage, mail: Mail) -> None:
    if mail.list_name:
        message["List-Id"] = f"<{mail.list_name}.{domain_of(mail.sender)}>"
    link = _line(mail.unsubscribe_link)
    if link and len(link) < LINE_CHARS_MAX - 2:  # a link cannot be folded
        message["List-Unsubscribe"] = f"<{link}>"
        if link.startswith("https://"):  # RFC 8058 allows no other scheme
            message["List-Unsubscribe-Post"] = ONE_CLICK


def _mailbox(name: str, address: str) -> str:
    clean = _line(name)
    return formataddr((clean, address)) if _is_plain(clean) else f"{_header_text(clean, 'From')} <{address}>"


def _header_text(text: str, name: str) -> str:
    clean = _line(text)
    return clean if _is_plain(clean) else Header(clean, "utf-8", header_name=name).encode(linesep="\r\n")


def _line(text: str) -> str:
    """The text without characters that could end the header and start another."""
    return _CONTROL.sub(" ", text)


def _is_plain(text: str) -> bool:
    """Whether a receiver reads the text as it is, unencoded. It would strip outer blanks, and decode `=?`."""
    return text.isascii() and text.strip() == text and "=?" not in text


def _add_text(add: Callable[..., None], text: str, subtype: str) -> None:
    """Add a text: unencoded where relays take it as it is, else in the encoding that the library chooses."""
    lines = text.encode().splitlines()  # at the same characters as the library, which str.splitlines does not
    plain = text.isascii() and "\0" not in text and max(map(len, lines), default=0) <= LINE_CHARS_MAX
    encoding = "7bit" if plain else "quoted-printable" if "\0" in text else None
    add(text, subtype, cte=encoding, content_manager=raw_data_manager)
