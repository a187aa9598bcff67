"""Bodies of notifications: what is the same for all subscriptions of one is rendered and signed once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from threading import Lock

from cns.delivery.envelope import Envelope, signed_envelope, unsubscribe_url
from cns.delivery.signing import Signer
from cns.delivery.target import Target
from cns.mail.texts import MailBranding
from cns.notification import Notification
from cns_common.bounded_cache import BoundedCache

ENVELOPES_REMEMBERED = 256

Key = tuple[str, str, bool]
"""Id of the notification, protocol that its text is of ('default': everybody's), whether it is replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """What the bodies need besides the notification."""

    signer: Signer
    base_url: str
    mail_words: MailBranding


class Envelopes:
    def __init__(self, rendering: Rendering) -> None:
        self.rendering = rendering
        self._envelopes: BoundedCache[Key, Envelope] = BoundedCache(ENVELOPES_REMEMBERED)
        self._signing: dict[Key, asyncio.Future[Envelope]] = {}
        self._being_made: dict[Key, Lock] = {}

    def body(self, target: Target, notification: Notification) -> bytes:
        """From any thread."""
        if target.raw:
            return notification.text_for(target.protocol).encode()
        key = _key(target, notification)
        envelope = self._envelopes.get(key) or self._make(key, target.protocol, notification)
        return envelope.body(unsubscribe_url(self.rendering.base_url, target.arn))

    async def sign_beside(self, target: Target, notification: Notification) -> None:
        """Have the envelope made in a thread: a signature takes longer than all else, and lets other threads run."""
        key = _key(target, notification)
        if self._envelopes.get(key) is not None:
            return
        signing = self._signing.get(key)
        if signing is None:
            signing = self._signing[key] = asyncio.ensure_future(
                asyncio.to_thread(self._make, key, target.protocol, notification)
            )
            signing.add_done_callback(lambda _: self._signing.pop(key))
        await asyncio.shield(signing)

    def _make(self, key: Key, protocol: str, notification: Notification) -> Envelope:
        """Who comes while another thread makes it waits for that: two of them would sign the same text."""
        with self._being_made.setdefault(key, Lock()):
            envelope = self._envelopes.get(key)
            if envelope is None:
                envelope = signed_envelope(notification, protocol, self.rendering.signer, self.rendering.base_url)
                self._envelopes.put(key, envelope)
        self._being_made.pop(key, None)
        return envelope


def _key(target: Target, notification: Notification) -> Key:
    text_of = target.protocol if target.protocol in notification.texts else "default"
    return (notification.id, text_of, notification.replayed)
