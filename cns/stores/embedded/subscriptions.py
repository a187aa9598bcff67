"""Subscriptions and their tokens in SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

import apsw
import msgspec

from cns.publishing.filter_changes import Audience, FilterChange
from cns.stores.contract import SubscriptionStore
from cns.stores.embedded import schema
from cns.stores.embedded.counts import DerivedWrites
from cns.subscriptions.subscription import ConfirmationToken, Subscription, SubscriptionCounts, id_of
from cns_common.bounded_cache import BoundedCache
from cns_common.sqlite.database import Database
from cns_common.store_keys import refuse_bad_keys

AUDIENCES_CACHED_MAX = 10_000
"""Audiences of topics without filters, cached because each publish needs one. Any write except messages ends them."""
CACHED_IDS_MAX = 20
_ENDPOINT_KEY_BYTES = 16

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Subscription).decode

Row = tuple[int, bytes]  # of a removed subscription: key of the topic, record


@refuse_bad_keys(SubscriptionStore)
class EmbeddedSubscriptionStore(SubscriptionStore):
    def __init__(self, database: Database) -> None:
        database.create_tables(schema.TABLES, schema.ADDED_COLUMNS)
        self._database = database
        self._unfiltered: BoundedCache[tuple[str, str, int], tuple[int, Audience]] = BoundedCache(AUDIENCES_CACHED_MAX)
        self.changed: list[Callable[[str], None]] = []

    # -- writing ------------------------------------------------------------------------------------------------------

    async def create(self, subscription: Subscription, token: ConfirmationToken | None) -> Subscription | None:
        def insert(connection: apsw.Connection) -> Subscription | None:
            topic: Any = connection.execute(
                schema.KEY_OF_TOPIC, (subscription.topic_arn, subscription.topic_id)
            ).fetchone()
            if topic is None:
                return None
            endpoint = (*topic, _endpoint_key(subscription))
            row: Any = connection.execute(schema.FIND_BY_ENDPOINT, endpoint).fetchone()
            if row is not None:
                return _decode(row[0])
            _insert(connection, subscription, *endpoint)
            _insert_token(connection, token)
            return subscription

        created = await self._database.write(insert)
        self._notify([subscription.arn])
        return created

    async def replace(self, subscription: Subscription, expected_version: int, token: ConfirmationToken | None) -> bool:
        def update(connection: apsw.Connection) -> bool:
            row: Any = connection.execute(schema.RECORD_OF, (subscription.id, expected_version)).fetchone()
            if row is None:
                return False
            topic, record = row
            connection.execute(
                schema.REPLACE_SUBSCRIPTION,
                (
                    subscription.index_state,
                    subscription.expires_ms or None,
                    subscription.version,
                    _encode(subscription),
                    subscription.id,
                ),
            )
            derived = DerivedWrites()
            derived.add(topic, _decode(record), subscription)
            derived.write(connection)
            _insert_token(connection, token)
            return True

        replaced = await self._database.write(update)
        self._notify([subscription.arn])
        return replaced

    async def remove(self, arn: str) -> bool:
        def delete(connection: apsw.Connection) -> list[str]:
            return _delete(connection, schema.REMOVE_SUBSCRIPTION, (id_of(arn),))

        removed = await self._database.write(delete, grows=False)
        self._notify([arn])
        return bool(removed)

    async def sweep(self, now_ms: int, budget: int) -> int:
        def clear(connection: apsw.Connection) -> tuple[int, list[str]]:
            connection.execute(schema.REMOVE_TOKENS, (now_ms, budget))
            done = connection.changes()
            arns = _delete(connection, schema.REMOVE_EXPIRED, (now_ms, budget - done))
            while done + len(arns) < budget:
                dropped: Any = connection.execute(schema.FIND_DROPPED).fetchone()
                if dropped is None:
                    break
                some = _delete(connection, schema.REMOVE_OF_TOPIC, (*dropped, budget - done - len(arns)))
                arns += some
                if not some:
                    connection.execute(schema.FORGET_DROPPED, dropped)
                    done += 1
            return done + len(arns), arns

        if self._database.reader.execute(schema.SWEEPABLE, (now_ms,)).fetchone() is None:
            return 0  # an idle service does not commit
        done, arns = await self._database.write(clear, grows=False)
        self._notify(arns)
        return done

    # -- reading ------------------------------------------------------------------------------------------------------

    async def get(self, arns: Sequence[str]) -> list[Subscription]:
        found = [subscription for arn in arns for subscription in self._read(schema.GET_SUBSCRIPTION, (id_of(arn),))]
        wanted = set(arns)
        return [subscription for subscription in found if subscription.arn in wanted]

    async def find_same_endpoint(self, subscription: Subscription) -> Subscription | None:
        topic: Any = self._database.reader.execute(
            schema.KEY_OF_TOPIC, (subscription.topic_arn, subscription.topic_id)
        ).fetchone()
        if topic is None:
            return None
        found = self._read(schema.FIND_BY_ENDPOINT, (*topic, _endpoint_key(subscription)))
        return found[0] if found else None

    async def find_token(self, text: str) -> ConfirmationToken | None:
        row: Any = self._database.reader.execute(schema.FIND_TOKEN, (text,)).fetchone()
        return None if row is None else ConfirmationToken(*row)

    async def audience(self, topic_arn: str, after: str, n: int, since: str) -> Audience:
        """If the topic has no log after its ids are read, it had none while they were read."""
        page, writes = (topic_arn, after, n), self._database.writes
        known = self._unfiltered.get(page)
        if known is not None and known[0] == writes:
            return known[1]
        ids = self._confirmed_ids(topic_arn, after, n)
        if self._database.reader.execute(schema.FILTER_LOG, (topic_arn,)).fetchone() is None:
            audience = Audience(ids)
            if writes >= 0 and len(ids) <= CACHED_IDS_MAX:
                self._unfiltered.put(page, (writes, audience))
            return audience
        self._database.reader.execute("BEGIN")  # reads of one snapshot
        try:
            return self._audience(topic_arn, self._confirmed_ids(topic_arn, after, n), since)
        finally:
            self._database.reader.execute("COMMIT")

    def _audience(self, topic_arn: str, ids: list[str], since: str) -> Audience:
        row: Any = self._database.reader.execute(schema.FILTER_LOG, (topic_arn,)).fetchone()
        if row is None:
            return Audience(ids)
        topic, number = row
        place = f"{topic}:{number}"
        if place == since:
            return Audience(ids, place)
        changes = self._changes(topic, number, since)
        return Audience(ids, place, changes or [], reload_all=changes is None)

    def _confirmed_ids(self, topic_arn: str, after: str, n: int) -> list[str]:
        rows: list[Any] = self._database.reader.execute(schema.CONFIRMED_IDS, (topic_arn, after, n)).fetchall()
        return [subscription_id for (subscription_id,) in rows]

    def _changes(self, topic: int, number: int, since: str) -> list[FilterChange] | None:
        """The changes up to `number`. None if the log has lost some of them.

        Log and records are written in the same commit, so the changes name no version.
        """
        known_topic, _, known = since.partition(":")
        if known_topic != str(topic):
            return None
        span = (topic, int(known))
        rows: list[Any] = self._database.reader.execute(schema.FILTER_CHANGES, span).fetchall()
        return [FilterChange(one, 0) for (one,) in rows] if len(rows) == number - int(known) else None

    async def page_of_filtered(self, topic_arn: str, after: str, n: int) -> list[Subscription]:
        return self._read(schema.PAGE_OF_FILTERED, (topic_arn, after, n))

    async def page_of_topic(self, topic_arn: str, after: str, n: int) -> list[Subscription]:
        return self._read(schema.PAGE_OF_TOPIC, (topic_arn, after, n))

    async def page_of_owner(self, account: str, region: str, after: str, n: int) -> list[Subscription]:
        return self._read(schema.PAGE_OF_OWNER, (account, region, after, n))

    async def regions(self, account: str) -> list[str]:
        rows: list[Any] = self._database.reader.execute(schema.REGIONS_OF_OWNER, (account,)).fetchall()
        return [region for (region,) in rows]

    async def counts(self, topic_arn: str) -> SubscriptionCounts:
        row: Any = self._database.reader.execute(schema.COUNTS, (topic_arn,)).fetchone()
        return SubscriptionCounts() if row is None else SubscriptionCounts(*row)

    async def count_pending(self, account: str) -> int:
        count: Any = self._database.reader.execute(schema.PENDING_OF_ACCOUNT, (account,)).get
        return count or 0

    async def count_filter_policies(self, account: str) -> int:
        count: Any = self._database.reader.execute(schema.POLICIES_OF_ACCOUNT, (account,)).get
        return count or 0

    def _read(self, statement: str, bindings: tuple[str | int | bytes, ...]) -> list[Subscription]:
        rows: list[Any] = self._database.reader.execute(statement, bindings).fetchall()
        return [_decode(record) for (record,) in rows]

    def _notify(self, arns: Iterable[str]) -> None:
        for arn in arns:
            for callback in self.changed:
                callback(arn)


def _insert(connection: apsw.Connection, subscription: Subscription, topic: int, endpoint_key: bytes) -> None:
    connection.execute(
        schema.INSERT_SUBSCRIPTION,
        (
            subscription.id,
            topic,
            subscription.index_state,
            subscription.owner,
            subscription.region,
            endpoint_key,
            subscription.expires_ms or None,
            subscription.version,
            _encode(subscription),
        ),
    )
    derived = DerivedWrites()
    derived.add(topic, None, subscription)
    derived.write(connection)


def _insert_token(connection: apsw.Connection, token: ConfirmationToken | None) -> None:
    if token is not None:
        connection.execute(schema.INSERT_TOKEN, (token.text, token.subscription_arn, token.expires_ms))


def _delete(connection: apsw.Connection, statement: str, bindings: tuple[str | int, ...]) -> list[str]:
    """Run a DELETE statement, and count off the removed subscriptions. Return their ARNs."""
    rows: list[Row] = connection.execute(statement, bindings).fetchall()  # type: ignore[assignment]  # its RETURNING clause
    removed = [(topic, _decode(record)) for topic, record in rows]
    derived = DerivedWrites()
    for topic, subscription in removed:
        derived.add(topic, subscription, None)
    derived.write(connection)
    return [subscription.arn for _, subscription in removed]


def _endpoint_key(subscription: Subscription) -> bytes:
    """A short key for the index of endpoints, which may be long."""
    return blake2b(
        f"{subscription.protocol} {subscription.endpoint}".encode(), digest_size=_ENDPOINT_KEY_BYTES
    ).digest()
