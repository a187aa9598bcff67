"""Webhook secrets: the headers are those of Standard Webhooks, and a rotation leaves a day to change the receiver."""

from __future__ import annotations

import base64
import hashlib
import hmac

from cns.delivery.webhook_secrets import NO_SECRET, OVERLAP_MS, SECRET_PREFIX, SecretState, WebhookSecrets
from cns_common.clock import Clock

ARN = "arn:aws:sns:us-east-1:111111111111:t:6a1f"
BODY = '{"test": 2432232314, "ü": "é"}'.encode()


def signatures(headers: dict[str, str], secret: str) -> bool:
    """As the reference libraries verify: any of the signatures, over id, timestamp and body."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    content = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), BODY])
    wanted = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return wanted in [one.removeprefix("v1,") for one in headers["webhook-signature"].split(" ")]


def test_both_secrets_sign_for_a_day_after_a_rotation() -> None:
    clock = Clock(test=True)
    secrets = WebhookSecrets(bytes(32), clock)
    first = NO_SECRET.rotated(clock.now_ms())
    second = first.rotated(clock.now_ms())
    old, new = secrets.text(ARN, first.number), secrets.text(ARN, second.number)
    assert old != new and len(base64.b64decode(new.removeprefix(SECRET_PREFIX))) == 32
    headers = secrets.headers(ARN, first, "m1", BODY)
    assert (signatures(headers, old), signatures(headers, new)) == (True, False)
    headers = secrets.headers(ARN, second, "m1", BODY)
    assert (signatures(headers, old), signatures(headers, new)) == (True, True)
    assert headers["webhook-timestamp"] == str(clock.now_ms() // 1000)
    clock.advance(OVERLAP_MS)
    headers = secrets.headers(ARN, second, "m1", BODY)
    assert (signatures(headers, old), signatures(headers, new)) == (False, True)


def test_secrets_are_of_one_subscription_and_one_store() -> None:
    clock = Clock()
    made = {WebhookSecrets(bytes([n]) * 32, clock).text(arn, 1) for n in (1, 2) for arn in (ARN, ARN + "b")}
    assert len(made) == 4


def test_without_a_secret_there_are_no_headers() -> None:
    assert WebhookSecrets(bytes(32), Clock()).headers(ARN, SecretState(), "m", BODY) == {}
