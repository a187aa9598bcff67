"""Platform applications in SQLite."""

from __future__ import annotations

from typing import Any

import apsw

from cns.push.model import PlatformApplication
from cns.stores.embedded import mobile_schema as schema
from cns.stores.mobile_contract import PlatformStore
from cns.stores.platform_records import PlatformRecords
from cns_common.arn import Arn
from cns_common.sealing import Seal
from cns_common.sqlite.database import Database
from cns_common.store_keys import refuse_bad_keys


@refuse_bad_keys(PlatformStore)
class EmbeddedPlatformStore(PlatformStore):
    def __init__(self, database: Database, seal: Seal) -> None:
        database.create_tables(schema.TABLES)
        self._database = database
        self._records = PlatformRecords(seal)

    async def create(self, application: PlatformApplication) -> PlatformApplication:
        arn = application.arn
        row = (arn, application.id, application.version, self._records.close(application))

        def insert(connection: apsw.Connection) -> PlatformApplication:
            connection.execute(schema.INSERT_APPLICATION, row)
            ((sealed,),) = connection.execute(schema.GET_APPLICATION, (arn,)).fetchall()
            return self._records.open(arn, sealed)  # type: ignore[arg-type]  # a BLOB NOT NULL

        return await self._database.write(insert)

    async def get(self, arn: str) -> PlatformApplication | None:
        row: Any = self._database.reader.execute(schema.GET_APPLICATION, (arn,)).fetchone()
        return None if row is None else self._records.open(arn, row[0])

    async def replace(self, application: PlatformApplication, expected_version: int) -> bool:
        row = (
            application.version,
            self._records.close(application),
            application.arn,
            application.id,
            expected_version,
        )

        def update(connection: apsw.Connection) -> bool:
            connection.execute(schema.REPLACE_APPLICATION, row)
            return connection.changes() > 0

        return await self._database.write(update)

    async def delete(self, arn: str) -> bool:
        def drop(connection: apsw.Connection) -> bool:
            row: Any = connection.execute(schema.DELETE_APPLICATION, (arn,)).fetchone()
            if row is None:
                return False
            connection.execute(schema.DROP_APPLICATION, row)
            return True

        return await self._database.write(drop, grows=False)

    async def regions(self, account: str) -> list[str]:
        return schema.APPLICATION_REGIONS.of(self._database.reader, account)

    async def page(self, account: str, region: str, after: str, n: int) -> list[PlatformApplication]:
        first = str(Arn("aws", "sns", region, account, "app/"))
        bounds = (max(first, after), first + schema.AFTER_ALL, n)
        rows: list[Any] = self._database.reader.execute(schema.PAGE_OF_APPLICATIONS, bounds).fetchall()
        return [self._records.open(arn, sealed) for arn, sealed in rows]
