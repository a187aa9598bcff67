"""The protocol application: mobile endpoints, for push notifications."""

from __future__ import annotations

import re

from cns.delivery.retry_policy import MAIL_POLICY
from cns.protocols.contract import DeliveryCheck, SubscribeCheck
from cns.protocols.resource import Resource
from cns.push.model import text_key


class Application(Resource):
    service = "sns"
    form = re.compile(r"endpoint/[A-Za-z_]{1,32}/[A-Za-z0-9_.-]{1,256}/[0-9a-fA-F-]{36}")
    syntax_error = "Application endpoint arn invalid:{}"
    retry = MAIL_POLICY
    subscribe_check = SubscribeCheck.MOBILE_ENDPOINT
    delivery_check = DeliveryCheck.MOBILE_ENDPOINT
    feedback_prefix = "Application"
    own_feedback = True

    def endpoint_name(self, endpoint: str) -> str:
        """The ARN without the id of the device."""
        return endpoint.rpartition("/")[0]

    def text_key(self, endpoint: str) -> str:
        """The name of the endpoint's platform."""
        return text_key(endpoint)
