"""The protocol lambda: functions, which get an event."""

from __future__ import annotations

import re

import msgspec

from cns.delivery.envelope import MessageType, notification_fields, text_to_sign, unsubscribe_url
from cns.delivery.retry_policy import QUEUE_POLICY
from cns.endpoints.outcome import Delivered
from cns.notification import Attributes, Notification
from cns.protocols.contract import PayloadContext, Recipient
from cns.protocols.resource import Resource


class LambdaFunction(Resource):
    service = "lambda"
    form = re.compile(r"function:[A-Za-z0-9_-]{1,64}(:(\$LATEST|[A-Za-z0-9_-]{1,128}))?")
    syntax_error = "Lambda endpoint ARN"
    retry = QUEUE_POLICY
    asked_each_time = True
    takes_large = True
    in_console = False
    feedback_prefix = "Lambda"
    delivered_status = 202

    def payload(self, context: PayloadContext, recipient: Recipient, notification: Notification, text: str) -> str:
        """Names and order of an event's members differ from the envelope's."""
        fields = notification_fields(notification, text)
        signature = context.signer.sign_message(text_to_sign(fields), notification.signature_version, context.base_url)
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
            "UnsubscribeUrl": unsubscribe_url(context.base_url, recipient.arn),
            "MessageAttributes": _event_attributes(notification.attributes),
        }
        record = {
            "EventSource": "aws:sns",
            "EventVersion": "1.0",
            "EventSubscriptionArn": recipient.arn,
            "Sns": message,
        }
        return msgspec.json.encode({"Records": [record]}).decode()

    def logged_response(self, outcome: Delivered, delivery_id: str) -> str:
        return msgspec.json.encode({"lambdaRequestId": outcome.provider_id or delivery_id}).decode()


def _event_attributes(attributes: Attributes) -> dict[str, dict[str, str]]:
    """Events know only two attribute types."""
    return {
        name: {"Type": "Binary" if data_type.startswith("Binary") else "String", "Value": text}
        for name, (data_type, text) in attributes.items()
    }
