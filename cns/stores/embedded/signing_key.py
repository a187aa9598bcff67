"""The signing key in SQLite: created once, stored encrypted, beside its certificate."""

from __future__ import annotations

import asyncio
from typing import Any

import apsw

from cns.stores.contract import SIGNING_KEY_SEALED_AS, SigningIdentity, SigningKeyStore
from cns_common.sealing import Seal
from cns_common.sqlite.database import Database

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS signing_keys(number INTEGER PRIMARY KEY, sealed BLOB NOT NULL,"
    " certificate BLOB NOT NULL, created_ms INTEGER NOT NULL)",
)


class EmbeddedSigningKeyStore(SigningKeyStore):
    def __init__(self, database: Database, seal: Seal) -> None:
        database.create_tables(SCHEMA)
        self._database = database
        self._seal = seal
        self._creating = asyncio.Lock()

    async def identity(self, now_ms: int) -> SigningIdentity:
        async with self._creating:
            return self._newest() or await self._create(now_ms)

    async def certificates(self) -> list[bytes]:
        rows: list[Any] = self._database.reader.execute(
            "SELECT certificate FROM signing_keys ORDER BY number DESC"
        ).fetchall()
        return [certificate for (certificate,) in rows]

    def _newest(self) -> SigningIdentity | None:
        row: Any = self._database.reader.execute(
            "SELECT sealed, certificate FROM signing_keys ORDER BY number DESC LIMIT 1"
        ).fetchone()
        return SigningIdentity(self._seal.open(SIGNING_KEY_SEALED_AS, row[0]), row[1]) if row else None

    async def _create(self, now_ms: int) -> SigningIdentity:
        from cns.delivery.signing import new_identity  # cryptography.x509 takes long to import

        made = await asyncio.to_thread(new_identity, now_ms)
        sealed = self._seal.close(SIGNING_KEY_SEALED_AS, made.key_pem)

        def insert(connection: apsw.Connection) -> None:
            connection.execute(
                "INSERT INTO signing_keys(sealed, certificate, created_ms) VALUES (?, ?, ?)",
                (sealed, made.certificate_pem, now_ms),
            )

        await self._database.write(insert)
        return made
