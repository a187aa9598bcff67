"""The protocols email and email-json: mailboxes."""

from __future__ import annotations

import re

from cns.delivery.envelope import signed_envelope
from cns.delivery.retry_policy import MAIL_POLICY
from cns.mail import texts as mail
from cns.notification import Notification
from cns.protocols.contract import DeliveryCheck, EndpointProtocol, PayloadContext, Recipient, Transport

_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_ADDRESS_CHARS_MAX = 320


class Email(EndpointProtocol):
    syntax_error = "Email address"
    transport = Transport.MAIL
    retry = MAIL_POLICY
    delivery_check = DeliveryCheck.MAILBOX
    mail = True
    html_mail = True

    def check(self, endpoint: str) -> str:
        if len(endpoint) > _ADDRESS_CHARS_MAX or not _ADDRESS.fullmatch(endpoint):
            raise self.syntax_fault(endpoint)
        return endpoint

    def endpoint_name(self, endpoint: str) -> str:
        """The domain."""
        return endpoint.rpartition("@")[2].lower()

    def payload(self, context: PayloadContext, recipient: Recipient, notification: Notification, text: str) -> str:
        page = mail.unsubscribe_page(context.base_url, recipient.arn, recipient.endpoint)
        return mail.notification_mail(self._text(context, page, notification, text), page, context.footer)

    def _text(self, context: PayloadContext, page: str, notification: Notification, text: str) -> str:
        return text


class EmailJson(Email):
    html_mail = False

    def _text(self, context: PayloadContext, page: str, notification: Notification, text: str) -> str:
        return signed_envelope(notification, self.name, context.signer, context.base_url).body(page).decode()
