"""SMS attributes, opt-outs and sandbox numbers in SQLite."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from cns.sms.numbers import SandboxNumber
from cns.stores.embedded import mobile_schema as schema
from cns.stores.mobile_contract import SmsStore
from cns_common.sqlite.database import Database
from cns_common.store_keys import refuse_bad_keys

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SandboxNumber).decode


@refuse_bad_keys(SmsStore)
class EmbeddedSmsStore(SmsStore):
    def __init__(self, database: Database) -> None:
        database.create_tables(schema.TABLES)
        self._database = database

    async def attributes(self, account: str, region: str) -> dict[str, str]:
        rows: list[Any] = self._database.reader.execute(schema.SMS_ATTRIBUTES, (account, region)).fetchall()
        return dict(rows)

    async def set_attributes(self, account: str, region: str, changes: dict[str, str]) -> None:
        def change(connection: apsw.Connection) -> None:
            for name, value in changes.items():
                if value:
                    connection.execute(schema.SET_SMS_ATTRIBUTE, (account, region, name, value))
                else:
                    connection.execute(schema.UNSET_SMS_ATTRIBUTE, (account, region, name))

        await self._database.write(change)

    # -- opt-outs -----------------------------------------------------------------------------------------------------

    async def opted_out(self, account: str, number: str) -> bool:
        return self._database.reader.execute(schema.IS_OPTED_OUT, (account, number)).fetchone() is not None

    async def opt_out(self, account: str, number: str) -> None:
        await self._change(schema.OPT_OUT, account, number)

    async def opt_in(self, account: str, number: str) -> None:
        await self._change(schema.OPT_IN, account, number)

    async def page_of_opted_out(self, account: str, after: str, n: int) -> list[str]:
        rows: list[Any] = self._database.reader.execute(schema.PAGE_OF_OPTED_OUT, (account, after, n)).fetchall()
        return [number for (number,) in rows]

    # -- the sandbox --------------------------------------------------------------------------------------------------

    async def sandbox_number(self, account: str, region: str, number: str) -> SandboxNumber | None:
        row: Any = self._database.reader.execute(schema.GET_NUMBER, (account, region, number)).fetchone()
        return None if row is None else _decode(row[0])

    async def put_sandbox_number(self, number: SandboxNumber, expected_version: int) -> bool:
        key = (number.account, number.region, number.number)
        value = (number.version, _encode(number))
        if expected_version:
            return await self._change(schema.REPLACE_NUMBER, *value, *key, expected_version)
        return await self._change(schema.INSERT_NUMBER, *key, *value)

    async def remove_sandbox_number(self, account: str, region: str, number: str) -> bool:
        return await self._change(schema.REMOVE_NUMBER, account, region, number)

    async def page_of_sandbox(self, account: str, region: str, after: str, n: int) -> list[SandboxNumber]:
        bounds = (account, region, after, n)
        rows: list[Any] = self._database.reader.execute(schema.PAGE_OF_NUMBERS, bounds).fetchall()
        return [_decode(record) for (record,) in rows]

    async def _change(self, statement: str, *values: str | int | bytes) -> bool:
        """Run a statement. Return whether it changed a row."""

        def run(connection: apsw.Connection) -> bool:
            connection.execute(statement, values)
            return connection.changes() > 0

        return await self._database.write(run)
