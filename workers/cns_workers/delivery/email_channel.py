"""The channel of mails: handed to the operator's relay by SMTP."""

from __future__ import annotations

from cns.delivery.envelope import ConfirmationNotice
from cns.delivery.outbox import OutboxItem
from cns.delivery.payloads import PayloadRenderer
from cns.delivery.target import Target
from cns.endpoints.contract import Request
from cns.endpoints.smtp import SmtpRequest
from cns.mail import texts as mail
from cns.mail.message import Mail, list_name, to_bytes
from cns.notification import Notification
from cns.protocols.table import find_protocol
from cns.subscriptions.subscription import id_of
from cns_workers.delivery.channel import PoolChannel
from cns_workers.delivery.pool.pool import DeliveryPool


class EmailChannel(PoolChannel):
    """`sender` is the address that mails come from, `base_url` the beginning of links in notifications, `footer` the
    end of notifications."""

    def __init__(self, pool: DeliveryPool, payloads: PayloadRenderer, sender: str, base_url: str, footer: str) -> None:
        super().__init__(pool)
        self._payloads = payloads
        self._sender = sender
        self._base_url = base_url
        self._footer = footer

    def traffic_key(self, target: Target) -> str:
        return "mail"  # all mailboxes are behind one relay

    def _request(self, target: Target, notification: Notification) -> Request:
        item = self._payloads.notification(target, notification)
        link = mail.unsubscribe_page(self._base_url, target.arn, target.endpoint)
        html = (
            mail.notification_html(item.message, link, self._footer) if find_protocol(target.protocol).html_mail else ""
        )
        return self._smtp_request(item, html, link)

    def _confirmation(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> Request:
        link = mail.confirmation_page(base_url, confirmation.topic_arn, confirmation.token, target.endpoint)
        return self._smtp_request(
            self._payloads.confirmation(target, confirmation, base_url), mail.confirmation_html(confirmation, link), ""
        )

    def _smtp_request(self, item: OutboxItem, html: str, unsubscribe_link: str) -> Request:
        message = Mail(
            sender_name=item.sender,
            sender=self._sender,
            recipient=item.destination,
            subject=item.subject or "",
            sent_ms=item.at_ms,
            id=f"{item.message_id}.{id_of(item.subscription_arn)}",
            text=item.body,
            html=html,
            unsubscribe_link=unsubscribe_link,
            list_name=list_name(item.topic_arn) if unsubscribe_link else "",
        )
        return SmtpRequest(self._sender, item.destination, to_bytes(message))
