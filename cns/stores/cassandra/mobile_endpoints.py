"""Mobile endpoints in Cassandra.

A new endpoint is written in this order: its record; the claim of its token, by which one of several callers wins; the
index. So a claim whose record is missing, or has another token, belonged to an endpoint that was removed or changed,
and can be taken over. A crash leaves at worst a record with a claim but without an index entry: its call was not
answered, and the next CreatePlatformEndpoint finds and completes it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hashlib import blake2b

import msgspec

from cns.push.model import MobileEndpoint, endpoint_id_of
from cns.stores.cassandra import mobile_schema as schema
from cns.stores.mobile_contract import MobileEndpointStore
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.cassandra.verified_pages import page_of_ids
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.store_keys import refuse_bad_keys

ATTEMPTS_MAX = 10
TOKEN_KEY_BYTES = 16
BUCKET_DIGITS = 2
"""Hexadecimal digits of an id that name its partition: 256 partitions per application."""
BUCKETS_AT_ONCE = 64
APPLICATIONS_AT_ONCE = 100
REMOVED_AT_ONCE = 16
READ_AT_ONCE = 100

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(MobileEndpoint).decode


@refuse_bad_keys(MobileEndpointStore)
class CassandraMobileEndpointStore(MobileEndpointStore):
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    # -- writing ------------------------------------------------------------------------------------------------------

    async def create(self, endpoint: MobileEndpoint) -> MobileEndpoint | None:
        if not await self._is_live(endpoint.application_arn, endpoint.application_id):
            return None
        await self._cassandra.run(schema.INSERT_ENDPOINT, endpoint.id, endpoint.version, _encode(endpoint))
        holder = await self._claim(endpoint)
        if holder is not None:
            undo_insert = self._cassandra.run(schema.UNDO_INSERT_ENDPOINT, endpoint.id)
            await asyncio.gather(undo_insert, self._enter(holder))
            return holder
        await self._enter(endpoint)
        if await self._is_live(endpoint.application_arn, endpoint.application_id):
            return endpoint
        await self._remove(endpoint)  # the application was deleted, and its sweep may have passed already
        return None

    async def replace(self, endpoint: MobileEndpoint, expected_version: int) -> bool:
        """Claim a new token before the record has it, and release the old one afterwards.

        Two processes that move a token at once may leave it with two endpoints: the device then gets messages twice.
        """
        before = await self._find(endpoint.id)
        if before is None or before.version != expected_version:
            return False
        moved = before.token != endpoint.token
        if moved and await self._claim(endpoint) is not None:
            return False

        async def ours() -> bool:
            return await self._find(endpoint.id) == endpoint

        values = (endpoint.version, _encode(endpoint), endpoint.id, expected_version)
        replaced = await self._write_conditionally(schema.REPLACE_ENDPOINT, values, ours)
        if moved and replaced:
            await self._release(before)
        elif moved and not await self._has_its_token(endpoint):
            await self._release(endpoint)
        return replaced

    async def _has_its_token(self, endpoint: MobileEndpoint) -> bool:
        """Whether the stored record, which another call may have replaced first, has the token."""
        there = await self._find(endpoint.id)
        return there is not None and there.token == endpoint.token

    async def delete(self, arn: str) -> bool:
        for _ in range(ATTEMPTS_MAX):
            endpoint = await self.get(arn)
            if endpoint is None:
                return False
            if await self._remove(endpoint):
                return True
        raise StoreUnavailable(f"too many simultaneous changes of {arn}")

    async def _remove(self, endpoint: MobileEndpoint) -> bool:
        """False if it was changed in the meantime. A crash after the record is deleted leaves an index entry alone."""

        async def gone() -> bool:
            return await self._find(endpoint.id) is None

        if not await self._write_conditionally(schema.DELETE_ENDPOINT, (endpoint.id, endpoint.version), gone):
            return False
        await asyncio.gather(self._leave(endpoint.application_id, endpoint.id), self._release(endpoint))
        return True

    # -- the claim of a token -----------------------------------------------------------------------------------------

    async def _claim(self, endpoint: MobileEndpoint) -> MobileEndpoint | None:
        """Claim the token. Return None on success, else the endpoint that holds the token."""
        key = _claim_key(endpoint)

        async def ours() -> bool:
            return await self._cassandra.run(schema.HOLDER, *key) == [(endpoint.id,)]

        for _ in range(ATTEMPTS_MAX):
            if await self._write_conditionally(schema.CLAIM, (*key, endpoint.id), ours):
                return None
            for (holder_id,) in await self._cassandra.run(schema.HOLDER, *key):
                if holder_id == endpoint.id:
                    return None
                holder = await self._find(holder_id)
                if holder is not None and holder.token == endpoint.token:
                    return holder
                if await self._write_conditionally(schema.TAKE_OVER, (endpoint.id, *key, holder_id), ours):
                    return None
        raise StoreUnavailable("too many simultaneous claims of one token")

    async def token_taken(self, endpoint: MobileEndpoint) -> bool:
        for (holder_id,) in await self._cassandra.run(schema.HOLDER, *_claim_key(endpoint)):
            holder = await self._find(holder_id)
            return holder is not None and holder.id != endpoint.id and holder.token == endpoint.token
        return False

    async def _release(self, endpoint: MobileEndpoint) -> None:
        """Release the token. If that fails, the claim can be taken over."""
        with contextlib.suppress(OutcomeUnknown):
            await self._cassandra.run_conditional(schema.RELEASE, *_claim_key(endpoint), endpoint.id)

    async def _write_conditionally(
        self, statement: Statement, values: Sequence[object], ours: Callable[[], Awaitable[bool]]
    ) -> bool:
        return await resolve_lost_write(lambda: self._cassandra.run_conditional(statement, *values), ours)

    # -- the index ----------------------------------------------------------------------------------------------------

    async def _enter(self, endpoint: MobileEndpoint) -> None:
        row = (endpoint.application_id, _bucket(endpoint.id), endpoint.id)
        await self._cassandra.run(schema.ENTER_ENDPOINT, *row)

    async def _leave(self, application_id: str, endpoint_id: str) -> None:
        await self._cassandra.run(schema.LEAVE_ENDPOINT, application_id, _bucket(endpoint_id), endpoint_id)

    async def _ids(self, application_id: str, after: str, n: int) -> list[str]:
        ids: list[str] = []
        buckets = [f"{number:0{BUCKET_DIGITS}x}" for number in range(16**BUCKET_DIGITS)]
        buckets = [bucket for bucket in buckets if bucket >= _bucket(after)]
        for start in range(0, len(buckets), BUCKETS_AT_ONCE):
            rows = [(application_id, bucket, after, n) for bucket in buckets[start : start + BUCKETS_AT_ONCE]]
            pages = await self._cassandra.run_each(schema.IDS_OF_APPLICATION, rows)
            ids += [endpoint_id for page in pages for (endpoint_id,) in page]
            if len(ids) >= n:
                break
        return ids[:n]

    # -- reading ------------------------------------------------------------------------------------------------------

    async def get(self, arn: str) -> MobileEndpoint | None:
        found = await self._find(endpoint_id_of(arn))
        return found if found is not None and found.arn == arn else None

    async def _find(self, endpoint_id: str) -> MobileEndpoint | None:
        rows = await self._cassandra.run(schema.GET_ENDPOINT, endpoint_id)
        return _decode(rows[0][0]) if rows else None

    async def page(self, application_id: str, after: str, n: int) -> list[MobileEndpoint]:
        read = partial(self._ids, application_id)
        return await page_of_ids(read, self._find_all, partial(self._leave, application_id), after, n)

    async def _find_all(self, ids: Sequence[str]) -> dict[str, MobileEndpoint]:
        chunks = [list(ids[start : start + READ_AT_ONCE]) for start in range(0, len(ids), READ_AT_ONCE)]
        pages = await self._cassandra.run_each(schema.GET_ENDPOINTS, [(chunk,) for chunk in chunks])
        return {endpoint_id: _decode(record) for page in pages for endpoint_id, record in page}

    async def _is_live(self, application_arn: str, application_id: str) -> bool:
        rows = await self._cassandra.run(schema.GET_APPLICATION, application_arn)
        return bool(rows) and rows[0][0] == application_id

    # -- sweeping -----------------------------------------------------------------------------------------------------

    async def sweep(self, now_ms: int, budget: int) -> int:
        done = 0
        for application_id, arn in await self._cassandra.run(schema.DROPPED, APPLICATIONS_AT_ONCE):
            if done >= budget:
                break
            if not await self._is_live(arn, application_id):  # else its deletion was started, but did not take place
                done += await self._sweep(application_id, budget - done)
        return done

    async def _sweep(self, application_id: str, n: int) -> int:
        """Delete up to `n` endpoints. An application without endpoints is forgotten, and counts as one."""
        ids = await self._ids(application_id, "", n)
        for start in range(0, len(ids), REMOVED_AT_ONCE):
            some = ids[start : start + REMOVED_AT_ONCE]
            await asyncio.gather(*[self._sweep_endpoint(application_id, one) for one in some])
        if ids:
            return len(ids)
        await self._cassandra.run(schema.FORGET_DROPPED, application_id)
        return 1

    async def _sweep_endpoint(self, application_id: str, endpoint_id: str) -> None:
        found = await self._find(endpoint_id)
        if found is None:  # a crash left the entry
            await self._leave(application_id, endpoint_id)
        else:
            await self._remove(found)


def _bucket(endpoint_id: str) -> str:
    return endpoint_id[:BUCKET_DIGITS]


def _claim_key(endpoint: MobileEndpoint) -> tuple[str, bytes]:
    """The key of the claim. Tokens may be long, so it contains a hash."""
    return endpoint.application_id, blake2b(endpoint.token.encode(), digest_size=TOKEN_KEY_BYTES).digest()
