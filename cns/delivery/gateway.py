"""The gateway: one URL of the operator's that takes what this service has no way of its own for, as a JSON document."""

from __future__ import annotations

import msgspec

from cns.delivery.envelope import USER_AGENT
from cns.delivery.outbox import OutboxItem
from cns.delivery.signing import Signer
from cns.endpoints.http import HttpRequest

SIGNATURE_VERSION = "2"
"""RSA with SHA-256, of all the body."""

_ENCODE = msgspec.json.Encoder().encode


class Gateway:
    def __init__(self, url: str, signer: Signer, base_url: str) -> None:
        self._url = url
        self._signer = signer
        self._base_url = base_url

    def request(self, item: OutboxItem) -> HttpRequest:
        """The same bytes at every attempt. The item's id lets a gateway tell a repetition, the signature a stranger."""
        body = _ENCODE(item)
        seal = self._signer.seal(body, SIGNATURE_VERSION, self._base_url)
        headers = {
            "x-cns-delivery-id": item.id,
            "x-cns-protocol": item.protocol,
            "x-cns-signature": seal.signature,
            "x-cns-signing-cert-url": seal.certificate_url,
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
        }
        return HttpRequest(self._url, headers, body)
