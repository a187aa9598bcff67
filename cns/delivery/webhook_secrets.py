"""Secrets of webhooks, and the headers that a delivery is signed with by them, as Standard Webhooks 1.0 says.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md. A subscription has one from
when its endpoint's owner asks for it. The secret is derived from a key of the store, the subscription's ARN and a
number that each rotation raises, so none is stored. After a rotation the former secret signs, too, for `OVERLAP_MS`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import NamedTuple

from cns.subscriptions.subscription import Subscription
from cns_common.clock import Clock

ATTRIBUTE = "WebhookSecret"
"""The number and the time of the newest secret among a subscription's stored attributes. It is not shown."""
SECRET_PREFIX = "whsec_"  # noqa: S105  # no secret: what every secret begins with
SECRET_BYTES = 32
OVERLAP_MS = 24 * 3_600_000
_PURPOSE = b"cns-webhook"


class SecretState(NamedTuple):
    """`number` is 0 where there is no secret."""

    number: int = 0
    made_ms: int = 0

    def rotated(self, now_ms: int) -> SecretState:
        return SecretState(self.number + 1, now_ms)

    def valid_numbers(self, now_ms: int) -> tuple[int, ...]:
        """The numbers of the secrets that sign now, the newest first."""
        if not self.number:
            return ()
        former = self.number > 1 and now_ms < self.made_ms + OVERLAP_MS
        return (self.number, self.number - 1) if former else (self.number,)

    @property
    def attribute(self) -> dict[str, str]:
        return {ATTRIBUTE: f"{self.number} {self.made_ms}"}


NO_SECRET = SecretState()


def secret_state(subscription: Subscription) -> SecretState:
    text = subscription.attributes.get(ATTRIBUTE)
    if text is None:
        return NO_SECRET
    number, _, made_ms = text.partition(" ")
    return SecretState(int(number), int(made_ms))


class WebhookSecrets:
    def __init__(self, receipt_key: bytes, clock: Clock) -> None:
        """The key is derived from the store's receipt key, which only processes of the store have."""
        self._clock = clock
        self._key = hashlib.blake2b(key=receipt_key, person=_PURPOSE, digest_size=SECRET_BYTES).digest()

    def text(self, arn: str, number: int) -> str:
        """The secret as its owner configures it: `whsec_` and base64."""
        return SECRET_PREFIX + base64.b64encode(self._secret(arn, number)).decode("ascii")

    def headers(self, arn: str, state: SecretState, message_id: str, body: bytes) -> dict[str, str]:
        """The headers of a delivery of `body` now; none without a secret. Callable from any thread."""
        if not state.number:
            return {}
        now_ms = self._clock.now_ms()
        numbers = state.valid_numbers(now_ms)
        now_s = str(now_ms // 1000)
        signed = f"{message_id}.{now_s}.".encode() + body
        return {
            "webhook-id": message_id,
            "webhook-timestamp": now_s,
            "webhook-signature": " ".join([f"v1,{self._mac(arn, number, signed)}" for number in numbers]),
        }

    def _secret(self, arn: str, number: int) -> bytes:
        return hmac.digest(self._key, f"{arn} {number}".encode(), hashlib.sha256)

    def _mac(self, arn: str, number: int, signed: bytes) -> str:
        return base64.b64encode(hmac.digest(self._secret(arn, number), signed, hashlib.sha256)).decode("ascii")
