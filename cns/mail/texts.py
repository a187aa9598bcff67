"""The texts of mails, in AWS's words: notifications and the two kinds of confirmation, as plain text and as HTML.

Links lead to pages whose buttons act, because mail scanners follow every link and must not change anything.
"""

from __future__ import annotations

import re
from html import escape
from urllib.parse import quote

import msgspec

from cns.delivery.envelope import ConfirmationNotice, MessageType


class MailBranding(msgspec.Struct, frozen=True, kw_only=True):
    """Texts that the operator configures. `sender_name` is used for confirmations and for topics without a DisplayName.
    `footer` ends each notification, and may be empty."""

    sender_name: str
    footer: str


NOTIFICATION_SUBJECT = "AWS Notification Message"
CONFIRMATION_SUBJECTS = {
    MessageType.SUBSCRIPTION_CONFIRMATION: "AWS Notification - Subscription Confirmation",
    MessageType.UNSUBSCRIBE_CONFIRMATION: "AWS Notification - Unsubscribe Confirmation",
}
CONFIRMATION_PAGE = "confirmation.html"
UNSUBSCRIBE_PAGE = "unsubscribe.html"

_UNSUBSCRIBE = (
    "If you wish to stop receiving notifications from this topic, please click or visit the link below to unsubscribe:"
)
_LINK = re.compile(r"https?://[^\s<>\"]*[^\s<>\".,;:!?)]")
_CONFIRM = (
    "You have chosen to subscribe to the topic: \n{topic}\n\n"
    "To confirm this subscription, click or visit the link below (If this was in error no action is necessary): \n"
    "{link}\n"
)
_RESTORE = (
    "Your subscription to the topic below has been deactivated: \n{topic}\n\n"
    "If this was in error or you wish to resubscribe, click or visit the link below to resubscribe to the topic: \n"
    "{link}\n"
)
_LINK_TEXTS = {
    MessageType.SUBSCRIPTION_CONFIRMATION: "Confirm subscription",
    MessageType.UNSUBSCRIBE_CONFIRMATION: "Resubscribe",
}
_HTML = (
    '<!doctype html>\n<html><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"></head>\n'
    '<body style="font:16px/1.5 system-ui,sans-serif;max-width:44em">\n{body}\n</body></html>\n'
)


def unsubscribe_page(base_url: str, subscription_arn: str, address: str) -> str:
    return f"{base_url}/{UNSUBSCRIBE_PAGE}?SubscriptionArn={subscription_arn}&Endpoint={quote(address, safe='')}"


def confirmation_page(base_url: str, topic_arn: str, token: str, address: str) -> str:
    return f"{base_url}/{CONFIRMATION_PAGE}?TopicArn={topic_arn}&Token={token}&Endpoint={quote(address, safe='')}"


def notification_mail(text: str, link: str, footer: str) -> str:
    """A notification's text, or its JSON, with the link to unsubscribe."""
    return f"{text}\n\n--\n{_UNSUBSCRIBE}\n{link}\n" + (f"\n{footer}\n" if footer else "")


def notification_html(text: str, link: str, footer: str) -> str:
    """The same as HTML. Line breaks and runs of blanks are kept without styles, which some mail programs ignore."""
    shown = escape(text).replace("\t", "    ").replace("  ", "&nbsp; ").replace("\n", "<br>\n")
    return _HTML.format(
        body=f'<div style="overflow-wrap:anywhere">{shown}</div>\n'
        '<hr style="border:0;border-top:1px solid #8888;margin:2em 0 1em">\n'
        f'<div style="font-size:13px">\n<p>{escape(_UNSUBSCRIBE)}<br>\n<a href="{escape(link)}">Unsubscribe</a></p>\n'
        f"{_paragraph(footer)}</div>"
    )


def _paragraph(footer: str) -> str:
    """The footer as a paragraph, its URLs as links."""
    if not footer:
        return ""
    shown, end = "", 0
    for found in _LINK.finditer(footer):
        url = escape(found[0])
        shown += f'{escape(footer[end : found.start()])}<a href="{url}">{url}</a>'
        end = found.end()
    return f"<p>{shown}{escape(footer[end:])}</p>\n"


def confirmation_mail(confirmation: ConfirmationNotice, link: str) -> str:
    return _template(confirmation).format(topic=confirmation.topic_arn, link=link)


def confirmation_html(confirmation: ConfirmationNotice, link: str) -> str:
    button = (
        f'<a href="{escape(link)}" style="display:inline-block;margin-top:.5em;padding:.5em 1.2em;border-radius:6px;'
        f'background:#0b57d0;color:#fff;text-decoration:none">{_LINK_TEXTS[confirmation.type]}</a>'
    )
    topic = f"<b>{escape(confirmation.topic_arn)}</b>"
    first, second = escape(_template(confirmation), quote=False).strip().split("\n\n")
    paragraphs = (first.format(topic=topic), second.format(link=button))
    return _HTML.format(body="\n".join(f"<p>{text.replace(chr(10), '<br>' + chr(10))}</p>" for text in paragraphs))


def _template(confirmation: ConfirmationNotice) -> str:
    return _CONFIRM if confirmation.type is MessageType.SUBSCRIPTION_CONFIRMATION else _RESTORE
