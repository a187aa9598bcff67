"""Mobile endpoints in SQLite."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import apsw
import msgspec

from cns.push.model import MobileEndpoint, endpoint_id_of
from cns.stores.embedded import mobile_schema as schema
from cns.stores.mobile_contract import MobileEndpointStore
from cns_common.sqlite.database import Database
from cns_common.store_keys import refuse_bad_keys

_TOKEN_KEY_BYTES = 16

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(MobileEndpoint).decode


@refuse_bad_keys(MobileEndpointStore)
class EmbeddedMobileEndpointStore(MobileEndpointStore):
    def __init__(self, database: Database) -> None:
        database.create_tables(schema.TABLES)
        self._database = database

    async def create(self, endpoint: MobileEndpoint) -> MobileEndpoint | None:
        key = _token_key(endpoint)
        row = (endpoint.id, endpoint.application_id, key, endpoint.version, _encode(endpoint))

        def insert(connection: apsw.Connection) -> MobileEndpoint | None:
            if connection.execute(schema.IS_THERE, (endpoint.application_id,)).fetchone() is None:
                return None
            found: Any = connection.execute(schema.BY_TOKEN, (endpoint.application_id, key)).fetchone()
            if found is not None:
                return _decode(found[0])
            connection.execute(schema.INSERT_ENDPOINT, row)
            return endpoint

        return await self._database.write(insert)

    async def get(self, arn: str) -> MobileEndpoint | None:
        row: Any = self._database.reader.execute(schema.GET_ENDPOINT, (endpoint_id_of(arn),)).fetchone()
        found = None if row is None else _decode(row[0])
        return found if found is not None and found.arn == arn else None

    async def token_taken(self, endpoint: MobileEndpoint) -> bool:
        return _has_other_owner(self._database.reader, endpoint)

    async def replace(self, endpoint: MobileEndpoint, expected_version: int) -> bool:
        row = (_token_key(endpoint), endpoint.version, _encode(endpoint), endpoint.id, expected_version)

        def update(connection: apsw.Connection) -> bool:
            if _has_other_owner(connection, endpoint):
                return False
            connection.execute(schema.REPLACE_ENDPOINT, row)
            return connection.changes() > 0

        return await self._database.write(update)

    async def delete(self, arn: str) -> bool:
        if await self.get(arn) is None:
            return False

        def remove(connection: apsw.Connection) -> bool:
            connection.execute(schema.DELETE_ENDPOINT, (endpoint_id_of(arn),))
            return connection.changes() > 0

        return await self._database.write(remove, grows=False)

    async def page(self, application_id: str, after: str, n: int) -> list[MobileEndpoint]:
        rows: list[Any] = self._database.reader.execute(schema.PAGE_OF_ENDPOINTS, (application_id, after, n)).fetchall()
        return [_decode(record) for (record,) in rows]

    async def sweep(self, now_ms: int, budget: int) -> int:
        def clear(connection: apsw.Connection) -> int:
            done = 0
            while done < budget:
                dropped: Any = connection.execute(schema.DROPPED).fetchone()
                if dropped is None:
                    break
                connection.execute(schema.DELETE_SOME, (*dropped, budget - done))
                removed = connection.changes()
                done += removed
                if not removed:
                    connection.execute(schema.FORGET_DROPPED, dropped)
                    done += 1
            return done

        if self._database.reader.execute(schema.DROPPED).fetchone() is None:
            return 0  # an idle service does not commit
        return await self._database.write(clear, grows=False)


def _has_other_owner(connection: apsw.Connection, endpoint: MobileEndpoint) -> bool:
    key = (endpoint.application_id, _token_key(endpoint))
    row: Any = connection.execute(schema.BY_TOKEN, key).fetchone()
    return row is not None and _decode(row[0]).id != endpoint.id


def _token_key(endpoint: MobileEndpoint) -> bytes:
    """A short key for the index of tokens, which may be long."""
    return blake2b(endpoint.token.encode(), digest_size=_TOKEN_KEY_BYTES).digest()
