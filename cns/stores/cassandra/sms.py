"""SMS attributes, opt-outs and sandbox numbers in Cassandra."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from cns.sms.numbers import SandboxNumber
from cns.stores.cassandra import mobile_schema as schema
from cns.stores.mobile_contract import SmsStore
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra
from cns_common.store_keys import refuse_bad_keys

BUCKETS = 16
"""Partitions of an account's opted-out numbers, which may be many."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SandboxNumber).decode


@refuse_bad_keys(SmsStore)
class CassandraSmsStore(SmsStore):
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def attributes(self, account: str, region: str) -> dict[str, str]:
        return dict(await self._cassandra.run(schema.SMS_ATTRIBUTES, account, region))

    async def set_attributes(self, account: str, region: str, changes: dict[str, str]) -> None:
        """One batch, because the rows are in one partition."""
        parts = [
            (schema.SET_SMS_ATTRIBUTE, (account, region, name, value))
            if value
            else (schema.UNSET_SMS_ATTRIBUTE, (account, region, name))
            for name, value in changes.items()
        ]
        if parts:
            await self._cassandra.run_batch(parts, logged=False)

    # -- opt-outs -----------------------------------------------------------------------------------------------------

    async def opted_out(self, account: str, number: str) -> bool:
        return bool(await self._cassandra.run(schema.IS_OPTED_OUT, account, _bucket(number), number))

    async def opt_out(self, account: str, number: str) -> None:
        await self._cassandra.run(schema.OPT_OUT, account, _bucket(number), number)

    async def opt_in(self, account: str, number: str) -> None:
        await self._cassandra.run(schema.OPT_IN, account, _bucket(number), number)

    async def page_of_opted_out(self, account: str, after: str, n: int) -> list[str]:
        """The order is by bucket, then by number."""
        numbers: list[str] = []
        for bucket in range(_bucket(after) if after else 0, BUCKETS):
            rows = await self._cassandra.run(schema.PAGE_OF_OPTED_OUT, account, bucket, after, n - len(numbers))
            numbers += [number for (number,) in rows]
            if len(numbers) >= n:
                break
            after = ""
        return numbers

    # -- the sandbox --------------------------------------------------------------------------------------------------

    async def sandbox_number(self, account: str, region: str, number: str) -> SandboxNumber | None:
        rows = await self._cassandra.run(schema.GET_NUMBER, account, region, number)
        return _decode(rows[0][0]) if rows else None

    async def put_sandbox_number(self, number: SandboxNumber, expected_version: int) -> bool:
        key = (number.account, number.region, number.number)
        value = (number.version, _encode(number))

        async def attempt() -> bool:
            if expected_version:
                return await self._cassandra.run_conditional(schema.REPLACE_NUMBER, *value, *key, expected_version)
            return await self._cassandra.run_conditional(schema.INSERT_NUMBER, *key, *value)

        async def ours() -> bool:
            return await self.sandbox_number(*key) == number

        return await resolve_lost_write(attempt, ours)

    async def remove_sandbox_number(self, account: str, region: str, number: str) -> bool:
        async def gone() -> bool:
            return await self.sandbox_number(account, region, number) is None

        return await resolve_lost_write(
            lambda: self._cassandra.run_conditional(schema.REMOVE_NUMBER, account, region, number), gone
        )

    async def page_of_sandbox(self, account: str, region: str, after: str, n: int) -> list[SandboxNumber]:
        rows = await self._cassandra.run(schema.PAGE_OF_NUMBERS, account, region, after, n)
        return [_decode(record) for (record,) in rows]


def _bucket(number: str) -> int:
    return blake2b(number.encode(), digest_size=1).digest()[0] % BUCKETS
