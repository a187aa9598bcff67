"""Caches the signed envelopes of notifications: the part that all subscriptions share is rendered and signed once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from cns.delivery.envelope import Envelope, EnvelopeDraft, signed_envelope, unsubscribe_url
from cns.delivery.signing_thread import SigningThread
from cns.delivery.target import Target
from cns.delivery.webhook_secrets import WebhookSecrets
from cns.mail.texts import MailBranding
from cns.notification import Notification
from cns_common.bounded_cache import BoundedCache

if TYPE_CHECKING:  # cryptography.x509 takes long to import
    from cns.delivery.signing import MessageSignature, Signer

ENVELOPES_CACHED = 256


class Key(NamedTuple):
    notification_id: str
    text_of: str
    """The protocol whose text it has; 'default': the text for all others."""
    replayed: bool
    signed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeContext:
    """The parts of a body besides the notification: signatures, links, words."""

    signer: Signer
    base_url: str
    mail_words: MailBranding
    webhook_secrets: WebhookSecrets


class EnvelopeCache:
    def __init__(self, context: EnvelopeContext) -> None:
        self.context = context
        self._envelopes: BoundedCache[Key, Envelope] = BoundedCache(ENVELOPES_CACHED)
        self._signing: dict[Key, asyncio.Future[MessageSignature]] = {}
        self._locks: dict[Key, Lock] = {}
        self._thread = SigningThread()

    def body(self, target: Target, notification: Notification) -> bytes:
        """Callable from any thread."""
        if target.raw:
            return notification.text_for(target.protocol).encode()
        key = _key(target, notification)
        envelope = self._envelopes.get(key) or self._make(key, target.protocol, notification)
        return envelope.body(unsubscribe_url(self.context.base_url, target.arn))

    async def sign_in_thread(self, target: Target, notification: Notification) -> None:
        """Cache the envelope, signed in a thread: a signature takes longest of all, and releases the interpreter."""
        key = _key(target, notification)
        if not key.signed or notification.fifo or self._envelopes.get(key) is not None:
            return
        signing, context = self._signing.get(key), self.context
        if signing is not None:
            await asyncio.shield(signing)
            return
        draft = EnvelopeDraft(notification, target.protocol)
        signing = self._signing[key] = self._thread.run(partial(draft.sign, context.signer, context.base_url))
        signing.add_done_callback(lambda _: self._signing.pop(key))
        self._envelopes.put(key, draft.finish(await asyncio.shield(signing)))

    def _make(self, key: Key, protocol: str, notification: Notification) -> Envelope:
        """Make an envelope in one thread, while other threads that need the same one wait."""
        with self._locks.setdefault(key, Lock()):
            envelope = self._envelopes.get(key)
            if envelope is None:
                signer = self.context.signer if key.signed else None
                envelope = signed_envelope(notification, protocol, signer, self.context.base_url)
                self._envelopes.put(key, envelope)
        self._locks.pop(key, None)
        return envelope


def _key(target: Target, notification: Notification) -> Key:
    text_of = target.protocol if target.protocol in notification.texts else "default"
    return Key(notification.id, text_of, notification.replayed, target.signed)
