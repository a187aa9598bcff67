"""Payloads for endpoints that are neither URLs nor queues: Lambda events, Firehose records, mails, text messages."""

from __future__ import annotations

from cns.delivery.envelope import ConfirmationNotice, signed_confirmation
from cns.delivery.outbox import OutboxItem, item_id
from cns.delivery.signing import Signer
from cns.delivery.target import Target
from cns.mail import texts as mail
from cns.mail.texts import MailBranding
from cns.notification import Notification
from cns.protocols.contract import PayloadContext
from cns.protocols.table import find_protocol


class PayloadRenderer:
    """`base_url` is the beginning of links. Confirmations bring their own: the address of the Subscribe call."""

    def __init__(self, signer: Signer, base_url: str, words: MailBranding) -> None:
        self._context = PayloadContext(signer=signer, base_url=base_url, footer=words.footer)
        self._sender_name = words.sender_name

    def notification(self, target: Target, notification: Notification) -> OutboxItem:
        text = text_for(target, notification)
        protocol = find_protocol(target.protocol)
        subject, sender = notification.subject, target.display_name
        if protocol.mail:
            subject = mail.NOTIFICATION_SUBJECT if subject is None else subject
            sender = sender or self._sender_name
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
            body=protocol.payload(self._context, target, notification, text),
            structured=notification.structured,
            attributes=notification.attributes,
        )

    def confirmation(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> OutboxItem:
        by_mail = find_protocol(target.protocol).mail
        if by_mail:
            link = mail.confirmation_page(base_url, confirmation.topic_arn, confirmation.token, target.endpoint)
            body = mail.confirmation_mail(confirmation, link)
        else:
            body = signed_confirmation(confirmation, self._context.signer, base_url).decode()
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
            sender=self._sender_name if by_mail else "",
            subject=mail.CONFIRMATION_SUBJECTS[confirmation.type] if by_mail else None,
            body=body,
        )


def text_for(target: Target, notification: Notification) -> str:
    """The text for an endpoint. The text for a mobile endpoint is under the name of its platform."""
    return notification.text_for(find_protocol(target.protocol).text_key(target.endpoint))
