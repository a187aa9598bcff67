"""Portal links: each opens one subscription to the owner of its endpoint, until a time or until it is revoked.

The token is `portal.<content>.<signature>`, both base64url, signed with HMAC-SHA256 under a key of the store that
signs nothing else. The record of the subscription lists its links: a link that it does not list is revoked, and all end
with the subscription. A link also ends with the access key that made it. The token itself is not stored.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from cns.authorization import Access
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.attribute_changes import change_attributes
from cns.subscriptions.subscription import Subscription
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.errors import RequestError
from cns_common.ids import hex_id

ATTRIBUTE = "PortalLinks"
"""The links among a subscription's stored attributes. It is not shown."""
ACTION = "SetSubscriptionAttributes"
"""An account holder who may call this action on a subscription may make links to it."""
TOKEN_PREFIX = "portal."  # noqa: S105  # no secret: what every token begins with
TOKEN_CHARS_MAX = 4_096
LINKS_MAX = 20
"""Links of a subscription that have not ended."""
LIFE_S_DEFAULT = 7 * 86_400
LIFE_S_MAX = 366 * 86_400
_PURPOSE = b"cns-portal"


class PortalLink(msgspec.Struct, frozen=True):
    """A link as the subscription's record has it."""

    id: str
    created_ms: int
    expires_ms: int
    made_by: str  # ARN of the account holder
    key_id: str = ""  # the access key that the account holder used


class _Claim(msgspec.Struct, frozen=True, array_like=True):
    """The content of a token: the subscription, the link's id, and when it ends."""

    subscription: str
    link: str
    expires_ms: int


class MadeLink(NamedTuple):
    link: PortalLink
    token: str


class OpenedLink(NamedTuple):
    """A link that is valid, with the subscription that it opens."""

    link: PortalLink
    subscription: Subscription


_encode = msgspec.json.Encoder().encode
_decode_claim = msgspec.json.Decoder(_Claim).decode
_decode_links = msgspec.json.Decoder(tuple[PortalLink, ...]).decode


class PortalLinks:
    def __init__(
        self,
        store: SubscriptionStore,
        access: Access,
        clock: Clock,
        receipt_key: bytes,
        is_key: Callable[[str], bool],
    ) -> None:
        """The signing key is derived from the store's receipt key, which only processes of the store have. `is_key`
        tells whether an access key is valid now, by its id."""
        self._store = store
        self._access = access
        self._clock = clock
        self._is_key = is_key
        self._key = hashlib.blake2b(key=receipt_key, person=_PURPOSE, digest_size=32).digest()

    # -- for account holders ------------------------------------------------------------------------------------------

    async def create(self, call: Call, arn: str, life_s: int, until_ms: int | None = None) -> MadeLink:
        """A new link to a subscription of the caller. It ends at `until_ms` at the latest, and with the caller's key.
        Its token is not shown again. Raises RequestError."""
        await self._access.own_subscription(call, arn)
        if not 1 <= life_s <= LIFE_S_MAX:
            raise RequestError("InvalidParameter", f"A portal link lives for 1 to {LIFE_S_MAX} seconds.")
        now_ms = self._clock.now_ms()
        expires_ms = now_ms + life_s * 1000
        if until_ms is not None:
            expires_ms = min(expires_ms, until_ms)
        link = PortalLink(hex_id(), now_ms, expires_ms, call.caller.arn, call.caller.key_id)

        def add(subscription: Subscription) -> dict[str, str]:
            living = self._living(subscription)
            if len(living) >= LINKS_MAX:
                living = self._usable(subscription)
            if len(living) >= LINKS_MAX:
                text = f"The subscription has {LINKS_MAX} portal links: revoke one."
                raise RequestError("SubscriptionLimitExceeded", text)
            return _attribute([*living, link])

        await change_attributes(self._store, arn, add)
        return MadeLink(link, self._sign(_Claim(arn, link.id, link.expires_ms)))

    async def list_links(self, call: Call, arn: str) -> list[PortalLink]:
        """The links of a subscription of the caller that have not ended, the oldest first. Raises RequestError."""
        return self._usable(await self._access.own_subscription(call, arn))

    async def revoke(self, call: Call, arn: str, link_id: str) -> None:
        """End a link and the visits that it began. Raises RequestError `NotFound` if there is no such link."""
        await self._access.own_subscription(call, arn)

        def remove(subscription: Subscription) -> dict[str, str]:
            living = self._living(subscription)
            rest = [link for link in living if link.id != link_id]
            if len(rest) == len(living):
                raise RequestError("NotFound", "The subscription has no such portal link.")
            return _attribute(rest)

        await change_attributes(self._store, arn, remove)

    # -- for holders of a link ----------------------------------------------------------------------------------------

    async def open(self, token: str) -> OpenedLink | None:
        """The link behind a token; None if the token is forged, has ended or is revoked, or the key that made it is not
        valid any more."""
        claim = self._verify(token)
        if claim is None or self._clock.now_ms() >= claim.expires_ms:
            return None
        for subscription in await self._store.get([claim.subscription]):
            for link in self._usable(subscription):
                if link.id == claim.link:
                    return OpenedLink(link, subscription)
        return None

    def _living(self, subscription: Subscription) -> list[PortalLink]:
        now_ms = self._clock.now_ms()
        return [link for link in links_of(subscription) if link.expires_ms > now_ms]

    def _usable(self, subscription: Subscription) -> list[PortalLink]:
        """The links of the subscription that have not ended and whose access key is valid."""
        return [link for link in self._living(subscription) if self._is_key(link.key_id)]

    def _sign(self, claim: _Claim) -> str:
        content = _text(_encode(claim))
        return f"{TOKEN_PREFIX}{content}.{self._mac(content)}"

    def _verify(self, token: str) -> _Claim | None:
        """The content of a token; None if this service did not sign it."""
        if len(token) > TOKEN_CHARS_MAX or not (token.startswith(TOKEN_PREFIX) and token.isascii()):
            return None
        content, _, mac = token.removeprefix(TOKEN_PREFIX).partition(".")
        if not hmac.compare_digest(self._mac(content), mac):
            return None
        return _decode_claim(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))

    def _mac(self, content: str) -> str:
        return _text(hmac.digest(self._key, content.encode("ascii"), hashlib.sha256))


def links_of(subscription: Subscription) -> Sequence[PortalLink]:
    """All links of the record, also those that have ended."""
    return _decode_links(subscription.attributes.get(ATTRIBUTE, "[]"))


def _attribute(links: Sequence[PortalLink]) -> dict[str, str]:
    return {ATTRIBUTE: _encode(links).decode() if links else ""}


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
