"""Platform applications in Cassandra."""

from __future__ import annotations

from collections.abc import Sequence

from cns.push.model import PlatformApplication
from cns.stores.cassandra import mobile_schema as schema
from cns.stores.mobile_contract import PlatformStore
from cns.stores.platform_records import PlatformRecords
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Row
from cns_common.cassandra.verified_pages import verified_page
from cns_common.errors import StoreUnavailable
from cns_common.sealing import Seal
from cns_common.store_keys import refuse_bad_keys

ATTEMPTS_MAX = 10


@refuse_bad_keys(PlatformStore)
class CassandraPlatformStore(PlatformStore):
    def __init__(self, cassandra: Cassandra, seal: Seal) -> None:
        self._cassandra = cassandra
        self._records = PlatformRecords(seal)

    async def create(self, application: PlatformApplication) -> PlatformApplication:
        """Write the index entry first: an entry that a crash leaves without an application is skipped."""
        entry = (application.account, application.region, application.arn, application.id)
        await self._cassandra.run(schema.ENTER_APPLICATION, *entry)
        stored = await self._insert(application)
        if stored.id != application.id:
            await self._cassandra.run(schema.LEAVE_APPLICATION, *entry)
        return stored

    async def _insert(self, application: PlatformApplication) -> PlatformApplication:
        async def ours() -> bool:
            return await self.get(application.arn) == application

        values = (application.arn, application.id, application.version, self._records.close(application))
        for _ in range(ATTEMPTS_MAX):
            if await resolve_lost_write(
                lambda: self._cassandra.run_conditional(schema.INSERT_APPLICATION, *values), ours
            ):
                return application
            existing = await self.get(application.arn)
            if existing is not None:
                return existing
        raise StoreUnavailable(f"too many simultaneous changes of {application.arn}")

    async def get(self, arn: str) -> PlatformApplication | None:
        rows = await self._cassandra.run(schema.GET_APPLICATION, arn)
        return self._records.open(arn, rows[0][1]) if rows else None

    async def replace(self, application: PlatformApplication, expected_version: int) -> bool:
        async def ours() -> bool:
            return await self.get(application.arn) == application

        sealed = self._records.close(application)
        values = (application.version, sealed, application.arn, application.id, expected_version)
        return await resolve_lost_write(
            lambda: self._cassandra.run_conditional(schema.REPLACE_APPLICATION, *values), ours
        )

    async def delete(self, arn: str) -> bool:
        """Mark the application for the sweep of its endpoints first. The sweep ignores the mark while it exists."""
        application = await self.get(arn)
        if application is None:
            return False

        async def gone() -> bool:
            there = await self.get(arn)
            return there is None or there.id != application.id

        await self._cassandra.run(schema.MARK_DROPPED, application.id, arn)
        deletion = (schema.DELETE_APPLICATION, arn, application.id)
        if not await resolve_lost_write(lambda: self._cassandra.run_conditional(*deletion), gone):
            return False
        await self._cassandra.run(
            schema.LEAVE_APPLICATION, application.account, application.region, arn, application.id
        )
        return True

    async def regions(self, account: str) -> list[str]:
        return await schema.APPLICATION_REGIONS.regions(self._cassandra, account)

    async def page(self, account: str, region: str, after: str, n: int) -> list[PlatformApplication]:
        async def read(after: str, n: int) -> list[Row]:
            return await self._cassandra.run(schema.LIST_APPLICATIONS, account, region, after, n)

        async def check(entries: Sequence[Row]) -> list[PlatformApplication]:
            if not entries:
                return []
            rows = await self._cassandra.run(schema.GET_APPLICATIONS, [arn for arn, _ in entries])
            found = {(arn, application_id): sealed for arn, application_id, sealed in rows}
            return [self._records.open(entry[0], found[entry]) for entry in map(tuple, entries) if entry in found]

        return await verified_page(read, check, lambda entry: str(entry[0]), after, n)
