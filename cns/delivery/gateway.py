"""The gateway: an operator's URL that takes deliveries for which this service has no channel, as JSON documents."""

from __future__ import annotations

import msgspec

from cns.delivery.envelope import USER_AGENT
from cns.delivery.outbox import OutboxItem
from cns.delivery.signing import Signer
from cns.endpoints.http import EndpointRequest

SIGNATURE_VERSION = "2"
"""RSA with SHA-256 over the whole body."""

_ENCODE = msgspec.json.Encoder().encode


class Gateway:
    def __init__(self, url: str, signer: Signer, base_url: str) -> None:
        self._url = url
        self._signer = signer
        self._base_url = base_url

    def request(self, item: OutboxItem) -> EndpointRequest:
        """The POST of an item, with the same bytes at each attempt. `x-cns-delivery-id` tells a gateway duplicates."""
        body = _ENCODE(item)
        signature = self._signer.sign_message(body, SIGNATURE_VERSION, self._base_url)
        headers = {
            "x-cns-delivery-id": item.id,
            "x-cns-protocol": item.protocol,
            "x-cns-signature": signature.signature,
            "x-cns-signing-cert-url": signature.certificate_url,
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
        }
        return EndpointRequest(self._url, headers, body)
