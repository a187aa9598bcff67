"""Envelopes: a notification is signed once for all its subscriptions, also with concurrent threads."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from cns.delivery.delivery_policy import DEFAULT_CONTENT_TYPE
from cns.delivery.envelope_cache import EnvelopeCache, EnvelopeContext
from cns.delivery.retry_policy import QUEUE_POLICY
from cns.delivery.signing import MessageSignature, Signer, new_identity
from cns.delivery.target import Target
from cns.delivery.webhook_secrets import WebhookSecrets
from cns.mail.texts import MailBranding
from cns.notification import Notification
from cns.stores.contract import SigningIdentity
from cns_common.clock import Clock

NOW_MS = 1_767_323_045_000
TOPIC = "arn:aws:sns:us-east-1:000000000000:t"
THREADS = 8

WORDS = MailBranding(sender_name="Notifications", footer="")


class CountingSigner(Signer):
    def __init__(self, identity: SigningIdentity) -> None:
        super().__init__(identity)
        self.sealed: list[bytes] = []

    def sign_message(self, canonical: bytes, version: str, base_url: str) -> MessageSignature:
        self.sealed.append(canonical)
        return super().sign_message(canonical, version, base_url)


@pytest.fixture(scope="module")
def identity() -> SigningIdentity:
    return new_identity(NOW_MS)


@pytest.fixture
def signer(identity: SigningIdentity) -> CountingSigner:
    return CountingSigner(identity)


@pytest.fixture
def envelopes(signer: CountingSigner) -> EnvelopeCache:
    secrets = WebhookSecrets(bytes(32), Clock())
    return EnvelopeCache(
        EnvelopeContext(signer=signer, base_url="http://localhost", mail_words=WORDS, webhook_secrets=secrets)
    )


def notification(texts: Mapping[str, str], *, replayed: bool = False) -> Notification:
    return Notification(id="n", topic_arn=TOPIC, timestamp_ms=NOW_MS, texts=dict(texts), replayed=replayed)


def target(protocol: str, name: str = "s") -> Target:
    return Target(
        arn=f"{TOPIC}:{name}",
        protocol=protocol,
        endpoint="e",
        confirmed=True,
        raw=False,
        retry=QUEUE_POLICY,
        content_type=DEFAULT_CONTENT_TYPE,
        dead_letter_arn="",
        signature_version="1",
        account="000000000000",
        region="us-east-1",
    )


def test_threads_that_need_it_at_once_sign_once(envelopes: EnvelopeCache, signer: CountingSigner) -> None:
    begin = Barrier(THREADS)

    def body(number: int) -> bytes:
        begin.wait()
        return envelopes.body(target("http", f"s{number}"), notification({"default": "hello"}))

    with ThreadPoolExecutor(THREADS) as threads:
        bodies = list(threads.map(body, range(THREADS)))
    assert len(signer.sealed) == 1
    assert len(set(bodies)) == THREADS  # each thread's body has its own UnsubscribeURL


@pytest.mark.parametrize(
    ("texts", "protocols", "signatures"),
    [
        ({"default": "all"}, ("http", "https", "sqs"), 1),
        ({"default": "all", "http": "web"}, ("http", "https", "sqs", "http"), 2),
        ({"default": "all", "http": "web", "sqs": "queue"}, ("http", "https", "sqs"), 3),
    ],
)
def test_each_text_is_signed_once(
    envelopes: EnvelopeCache, signer: CountingSigner, texts: dict[str, str], protocols: tuple[str, ...], signatures: int
) -> None:
    given = notification(texts)
    for protocol in protocols:
        assert given.text_for(protocol).encode() in envelopes.body(target(protocol), given)
    assert len(signer.sealed) == signatures


def test_a_replayed_one_says_so(envelopes: EnvelopeCache) -> None:
    texts = {"default": "hello"}
    plain = envelopes.body(target("http"), notification(texts))
    replayed = envelopes.body(target("http"), notification(texts, replayed=True))
    assert (b"Replayed" in plain, b"Replayed" in replayed) == (False, True)
