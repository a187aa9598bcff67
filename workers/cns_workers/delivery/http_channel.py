"""The channels of HTTP endpoints, and of protocols whose own requests carry the same bodies."""

from __future__ import annotations

from cns.delivery.envelope import ConfirmationNotice, MessageType, http_headers, signed_confirmation
from cns.delivery.envelope_cache import EnvelopeCache
from cns.delivery.target import Target
from cns.endpoints.contract import Request
from cns.endpoints.http import EndpointRequest
from cns.notification import Notification
from cns.protocols.contract import EndpointProtocol
from cns_common.traces.context import TRACEPARENT
from cns_workers.delivery.channel import PoolChannel
from cns_workers.delivery.pool.pool import DeliveryPool


class HttpChannel(PoolChannel):
    def __init__(self, pool: DeliveryPool, envelopes: EnvelopeCache) -> None:
        super().__init__(pool)
        self._envelopes = envelopes

    def traffic_key(self, target: Target) -> str:
        return target.endpoint_key

    def _request(self, target: Target, notification: Notification) -> Request:
        headers = http_headers(
            MessageType.NOTIFICATION,
            notification.id,
            notification.topic_arn,
            target.arn,
            target.content_type,
            raw=target.raw,
        )
        if notification.trace_context:
            headers[TRACEPARENT] = notification.trace_context
        body = self._envelopes.body(target, notification)
        if target.webhook_secret.number:
            secrets = self._envelopes.context.webhook_secrets
            headers |= secrets.headers(target.arn, target.webhook_secret, notification.id, body)
        return EndpointRequest(target.endpoint, headers, body)

    def _confirmation(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> Request:
        headers = http_headers(
            confirmation.type,
            confirmation.id,
            confirmation.topic_arn,
            confirmation.subscription_arn,
            target.content_type,
        )
        body = signed_confirmation(confirmation, self._envelopes.context.signer, base_url)
        return EndpointRequest(target.endpoint, headers, body)


class BodyChannel(HttpChannel):
    """Sends the body that an HTTP endpoint would get, without its headers."""

    def __init__(self, pool: DeliveryPool, envelopes: EnvelopeCache, protocol: EndpointProtocol) -> None:
        super().__init__(pool, envelopes)
        self._protocol = protocol

    def _request(self, target: Target, notification: Notification) -> Request:
        return self._protocol.request(target.endpoint, self._envelopes.body(target, notification))

    def _confirmation(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> Request:
        body = signed_confirmation(confirmation, self._envelopes.context.signer, base_url)
        return self._protocol.request(target.endpoint, body)
