"""The protocol sqs: queues, of this service and of others."""

from __future__ import annotations

import msgspec

from cns.arns import parse_queue_arn
from cns.delivery.retry_policy import QUEUE_POLICY
from cns.endpoints.outcome import Delivered
from cns.protocols.contract import EndpointProtocol, Transport


class Sqs(EndpointProtocol):
    aliases = ("cqs",)  # the original CNS's name of its queues
    syntax_error = "SQS endpoint ARN"
    transport = Transport.QUEUE
    retry = QUEUE_POLICY
    names_account = True
    asked_each_time = True
    takes_raw = True
    fifo_error = "FIFO SQS Queues can not be subscribed to standard SNS topics"
    takes_large = True
    feedback_prefix = "SQS"
    span = ("SendMessage", "producer")

    def check(self, endpoint: str) -> str:
        if parse_queue_arn(endpoint) is None:
            raise self.syntax_fault(endpoint)
        return endpoint

    def endpoint_name(self, endpoint: str) -> str:
        return endpoint

    def logged_response(self, outcome: Delivered, delivery_id: str) -> str:
        return msgspec.json.encode({"sqsRequestId": delivery_id, "sqsMessageId": outcome.provider_id}).decode()
