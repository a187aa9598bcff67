"""Payloads for endpoints that are neither URLs nor queues: Lambda events, Firehose records, mails, text messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from cns.delivery.envelope import (
    Confirmation,
    MessageType,
    notification_fields,
    signed_confirmation,
    signed_envelope,
    text_to_sign,
    unsubscribe_url,
)
from cns.delivery.outbox import OutboxItem, item_id
from cns.delivery.signing import Signer
from cns.delivery.target import Target
from cns.mail import texts as mail
from cns.mail.texts import MailBranding
from cns.notification import Attributes, Notification
from cns.push.model import text_key
from cns.subscriptions.subscription import MAIL_PROTOCOLS

SMS_CHARS_MAX = 1_600
SMS_SENDER_CHARS_MAX = 10

_ENCODE = msgspec.json.Encoder().encode


class PayloadRenderer:
    """`base_url` is the beginning of links. Confirmations bring their own: the address of the Subscribe call."""

    def __init__(self, signer: Signer, base_url: str, words: MailBranding) -> None:
        self._signer = signer
        self._base_url = base_url
        self._words = words
        self._bodies: Mapping[str, Callable[[Target, Notification, str], str]] = {
            "lambda": self._event,
            "firehose": self._record,
            "sms": _text_message,
            "email": self._mail,
            "email-json": self._json_mail,
        }

    def notification(self, target: Target, notification: Notification) -> OutboxItem:
        text = text_for(target, notification)
        body = self._bodies.get(target.protocol, _plain_text)
        subject, sender = notification.subject, target.display_name
        if target.protocol in MAIL_PROTOCOLS:
            subject = mail.NOTIFICATION_SUBJECT if subject is None else subject
            sender = sender or self._words.sender_name
        return OutboxItem(
            id=item_id(notification.timestamp_ms, notification.id, target.arn or target.endpoint),
            at_ms=notification.timestamp_ms,
            account=target.account,
            region=target.region,
            protocol=target.protocol,
            destination=target.endpoint,
            message_id=notification.id,
            topic_arn=notification.topic_arn,
            subscription_arn=target.arn,
            sender=sender,
            subject=subject,
            message=text,
            body=body(target, notification, text),
            structured=notification.structured,
            attributes=notification.attributes,
        )

    def confirmation(self, target: Target, confirmation: Confirmation, base_url: str) -> OutboxItem:
        by_mail = target.protocol in MAIL_PROTOCOLS
        if by_mail:
            link = mail.confirmation_page(base_url, confirmation.topic_arn, confirmation.token, target.endpoint)
            body = mail.confirmation_mail(confirmation, link)
        else:
            body = signed_confirmation(confirmation, self._signer, base_url).decode()
        return OutboxItem(
            id=item_id(confirmation.timestamp_ms, confirmation.id, target.arn),
            at_ms=confirmation.timestamp_ms,
            account=target.account,
            region=target.region,
            protocol=target.protocol,
            destination=target.endpoint,
            message_id=confirmation.id,
            topic_arn=confirmation.topic_arn,
            subscription_arn=target.arn,
            sender=self._words.sender_name if by_mail else "",
            subject=mail.CONFIRMATION_SUBJECTS[confirmation.type] if by_mail else None,
            body=body,
        )

    # -- bodies -------------------------------------------------------------------------------------------------------

    def _event(self, target: Target, notification: Notification, text: str) -> str:
        """The event of a Lambda function. Names and order of members differ from the envelope's."""
        fields = notification_fields(notification, text)
        signature = self._signer.sign_message(text_to_sign(fields), notification.signature_version, self._base_url)
        message = {
            "Type": MessageType.NOTIFICATION.value,
            "MessageId": notification.id,
            "TopicArn": notification.topic_arn,
            "Message": text,
            "Timestamp": fields["Timestamp"],
            "SignatureVersion": signature.version,
            "Signature": signature.signature,
            "SigningCertUrl": signature.certificate_url,
            "Subject": notification.subject,
            "UnsubscribeUrl": unsubscribe_url(self._base_url, target.arn),
            "MessageAttributes": _event_attributes(notification.attributes),
        }
        record = {
            "EventSource": "aws:sns",
            "EventVersion": "1.0",
            "EventSubscriptionArn": target.arn,
            "Sns": message,
        }
        return _ENCODE({"Records": [record]}).decode()

    def _record(self, target: Target, notification: Notification, text: str) -> str:
        """The record of a stream: one line of JSON, or with raw delivery the message as it is."""
        if target.raw:
            return text
        members: dict[str, object] = dict(notification_fields(notification, text))
        members["UnsubscribeURL"] = unsubscribe_url(self._base_url, target.arn)
        if notification.attributes:
            members["MessageAttributes"] = _members(notification.attributes)
        return _ENCODE(members).decode() + "\n"

    def _mail(self, target: Target, _notification: Notification, text: str) -> str:
        return mail.notification_mail(text, self._page(target), self._words.footer)

    def _json_mail(self, target: Target, notification: Notification, _text: str) -> str:
        envelope = signed_envelope(notification, target.protocol, self._signer, self._base_url)
        page = self._page(target)
        return mail.notification_mail(envelope.body(page).decode(), page, self._words.footer)

    def _page(self, target: Target) -> str:
        return mail.unsubscribe_page(self._base_url, target.arn, target.endpoint)


def text_for(target: Target, notification: Notification) -> str:
    """The text for an endpoint. The text for a mobile endpoint is under the name of its platform."""
    if target.protocol == "application":
        return notification.text_for(text_key(target.endpoint))
    return notification.text_for(target.protocol)


def _text_message(target: Target, _notification: Notification, text: str) -> str:
    """Text messages of a topic begin with its DisplayName; messages published to a number are sent as they are."""
    prefix = f"{target.display_name[:SMS_SENDER_CHARS_MAX]}> " if target.display_name else ""
    return f"{prefix}{text}"[:SMS_CHARS_MAX]


def _plain_text(_target: Target, _notification: Notification, text: str) -> str:
    return text


def _members(attributes: Attributes) -> dict[str, dict[str, str]]:
    return {name: {"Type": data_type, "Value": text} for name, (data_type, text) in attributes.items()}


def _event_attributes(attributes: Attributes) -> dict[str, dict[str, str]]:
    """Lambda events know only two attribute types."""
    return {
        name: {"Type": "Binary" if data_type.startswith("Binary") else "String", "Value": text}
        for name, (data_type, text) in attributes.items()
    }
