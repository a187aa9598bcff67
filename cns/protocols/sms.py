"""The protocol sms: phone numbers."""

from __future__ import annotations

import re

from cns.delivery.retry_policy import MAIL_POLICY
from cns.endpoints.outcome import Delivered
from cns.notification import Notification
from cns.protocols.contract import DeliveryCheck, EndpointProtocol, PayloadContext, Recipient, Transport
from cns_common.errors import RequestError

CHARS_MAX = 1_600
SENDER_CHARS_MAX = 10
_PHONE_NUMBER = re.compile(r"\+?[1-9][0-9]{1,14}")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[./-](?=[0-9])")


class Sms(EndpointProtocol):
    transport = Transport.OUTBOX
    retry = MAIL_POLICY
    confirms = False  # a phone can opt out
    delivery_check = DeliveryCheck.PHONE
    own_feedback = True

    def check(self, endpoint: str) -> str:
        """Return the number without dots, dashes and slashes between digits."""
        number = _BETWEEN_DIGITS.sub("", endpoint)
        if not _PHONE_NUMBER.fullmatch(number):
            raise self.syntax_fault(endpoint)
        return number

    def syntax_fault(self, endpoint: str) -> RequestError:
        return RequestError("InvalidParameter", f"Invalid SMS endpoint: {endpoint}")  # AWS omits its usual prefix here

    def payload(self, context: PayloadContext, recipient: Recipient, notification: Notification, text: str) -> str:
        """Messages of a topic begin with its DisplayName; messages published to a number are sent as they are."""
        prefix = f"{recipient.display_name[:SENDER_CHARS_MAX]}> " if recipient.display_name else ""
        return f"{prefix}{text}"[:CHARS_MAX]

    def logged_response(self, outcome: Delivered, delivery_id: str) -> str:
        return "Message has been accepted by phone carrier"
