"""The signing key in Cassandra: if two processes create the first key, one key is stored, and both sign with it."""

from __future__ import annotations

import asyncio

from cns.stores.cassandra import schema
from cns.stores.contract import SIGNING_KEY_SEALED_AS, SigningIdentity, SigningKeyStore
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra
from cns_common.errors import StoreUnavailable
from cns_common.sealing import Seal


class CassandraSigningKeyStore(SigningKeyStore):
    def __init__(self, cassandra: Cassandra, seal: Seal) -> None:
        self._cassandra = cassandra
        self._seal = seal

    async def identity(self, now_ms: int) -> SigningIdentity:
        return await self._newest() or await self._create(now_ms)

    async def certificates(self) -> list[bytes]:
        return [certificate for (certificate,) in await self._cassandra.run(schema.CERTIFICATES)]

    async def _newest(self) -> SigningIdentity | None:
        rows = await self._cassandra.run(schema.NEWEST_KEY)
        return SigningIdentity(self._seal.open(SIGNING_KEY_SEALED_AS, rows[0][0]), rows[0][1]) if rows else None

    async def _create(self, now_ms: int) -> SigningIdentity:
        from cns.delivery.signing import new_identity  # cryptography.x509 takes long to import

        made = await asyncio.to_thread(new_identity, now_ms)
        sealed = self._seal.close(SIGNING_KEY_SEALED_AS, made.key_pem)

        async def ours() -> bool:
            return await self._cassandra.run(schema.NEWEST_KEY) == [(sealed, made.certificate_pem)]

        row = (sealed, made.certificate_pem, now_ms)
        if await resolve_lost_write(lambda: self._cassandra.run_conditional(schema.FIRST_KEY, *row), ours):
            return made
        stored = await self._newest()
        if stored is None:
            raise StoreUnavailable("the signing key that another process created is not readable yet")
        return stored
