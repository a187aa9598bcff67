"""The protocol firehose: delivery streams, whose records are lines of JSON."""

from __future__ import annotations

import re

import msgspec

from cns.delivery.envelope import notification_fields, unsubscribe_url
from cns.delivery.retry_policy import QUEUE_POLICY
from cns.endpoints.outcome import Delivered
from cns.notification import Notification
from cns.protocols.contract import PayloadContext, Recipient
from cns.protocols.resource import Resource


class Firehose(Resource):
    service = "firehose"
    form = re.compile(r"deliverystream/[A-Za-z0-9_.-]{1,64}")
    syntax_error = "Firehose endpoint ARN"
    retry = QUEUE_POLICY
    takes_raw = True
    takes_large = True
    in_console = False
    needs_role = True
    feedback_prefix = "Firehose"

    def payload(self, context: PayloadContext, recipient: Recipient, notification: Notification, text: str) -> str:
        """One line of JSON, or with raw delivery the message as it is."""
        if recipient.raw:
            return text
        members: dict[str, object] = dict(notification_fields(notification, text))
        members["UnsubscribeURL"] = unsubscribe_url(context.base_url, recipient.arn)
        if notification.attributes:
            members["MessageAttributes"] = {
                name: {"Type": data_type, "Value": text} for name, (data_type, text) in notification.attributes.items()
            }
        return msgspec.json.encode(members).decode() + "\n"

    def logged_response(self, outcome: Delivered, delivery_id: str) -> str:
        return msgspec.json.encode({"firehoseRequestId": outcome.provider_id or delivery_id}).decode()
