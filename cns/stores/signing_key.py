"""The contract of the store that keeps the key which signs notifications."""

from __future__ import annotations

from typing import Protocol

import msgspec

SEALED_AS = "signing-key"


class Identity(msgspec.Struct, frozen=True):
    """A signing key and its certificate, PEM."""

    key_pem: bytes
    certificate_pem: bytes


class SigningKeyStore(Protocol):
    async def identity(self, now_ms: int) -> Identity:
        """The key to sign with; made, and durable, if there was none."""
        ...

    async def certificates(self) -> list[bytes]:
        """All certificates ever used, newest first: notifications signed long ago are still verified."""
        ...
