"""Reads archives from Cassandra without async calls: each call runs an event loop until it has the result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from cns.archives.model import ArchivedMessage
from cns.stores.cassandra import archive_schema, schema
from cns.stores.cassandra.archives import DAYS_READ, CassandraArchiveStore
from cns.topics.topic import Topic
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.durations import DAY_MS
from cns_common.errors import EXIT_CASSANDRA_UNUSABLE, OutcomeUnknown, StartError, StoreUnavailable
from cns_pipeline.archive import PAGE_MESSAGES
from cns_pipeline.archive.contract import ArchiveReader

TOPICS_A_PAGE = 500
TOKEN_MIN = -(2**63)
"""Below the token of every partition."""

_topic = msgspec.msgpack.Decoder(Topic).decode


@contextmanager
def open_cassandra_reader(address: CassandraAddress) -> Iterator[CassandraReader]:
    """Raises StartError if Cassandra cannot be reached, now or during a read."""
    with asyncio.Runner() as runner:
        cassandra = runner.run(Cassandra.open(address))
        try:
            yield CassandraReader(runner, cassandra)
        except (StoreUnavailable, OutcomeUnknown) as error:
            raise StartError(f"cannot read the archives: {error}", EXIT_CASSANDRA_UNUSABLE) from error
        finally:
            runner.run(cassandra.close())


class CassandraReader(ArchiveReader):
    def __init__(self, runner: asyncio.Runner, cassandra: Cassandra) -> None:
        self._runner = runner
        self._cassandra = cassandra
        self._archives = CassandraArchiveStore(cassandra)

    def topics(self) -> Iterator[Topic]:
        token = TOKEN_MIN
        while rows := self._runner.run(self._cassandra.run(schema.ALL_TOPICS, token, TOPICS_A_PAGE)):
            for _, record in rows:
                topic = _topic(record)
                if topic.archive is not None:
                    yield topic
            token = rows[-1][0]

    def days(self, archive_id: str, since_ms: int, until_ms: int) -> list[int]:
        bounds = (since_ms // DAY_MS, (until_ms - 1) // DAY_MS)
        rows = self._runner.run(self._cassandra.run(archive_schema.DAYS, archive_id, *bounds, DAYS_READ))
        return [day for (day,) in rows]

    def messages(self, archive_id: str, since_ms: int, until_ms: int) -> Iterator[ArchivedMessage]:
        after = ""
        while page := self._runner.run(self._archives.page(archive_id, since_ms, until_ms, after, PAGE_MESSAGES)):
            yield from page
            after = page[-1].key
