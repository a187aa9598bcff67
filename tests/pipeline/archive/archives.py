"""Archives of topics in a data directory without a service, and what the archive table has of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import duckdb

from cns.archives.model import ArchivedMessage, archive_key, archived_at_ms
from cns.notification import Notification
from cns.stores.contract import ArchiveStore, TopicStore
from cns.stores.embedded import EmbeddedArchiveStore, EmbeddedTopicStore
from cns.topics.topic import Topic
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.sqlite.database import Database
from tests.archived_topic import archived_topic

KEPT_DAYS = 30
STANDARD, FIFO = "standard", "ordered.fifo"


def topic_named(name: str, now_ms: int) -> Topic:
    """A topic with an archive that began four days ago."""
    return archived_topic(name, now_ms, began_days_ago=4, kept_days=KEPT_DAYS)


def message(topic: Topic, number: int, at_ms: int) -> Notification:
    """A message of one of several kinds: attributes, binary, subject, texts by protocol, control characters."""
    fifo = topic.fifo
    return Notification(
        id=f"00000000-0000-4000-8000-{number:012d}",
        topic_arn=topic.arn,
        timestamp_ms=at_ms,
        texts={"default": f"{number} ✓\t\x00😀"} | ({"sqs": "for queues", "http": ""} if number % 3 == 0 else {}),
        subject=f"subject {number}" if number % 2 else None,
        attributes={"z": ("Number", "1.50"), "a": ("Binary", "AP8="), "m": ("String.Array", '["é"]')}
        if number % 4
        else {},
        structured=number % 3 == 0,
        signature_version="2" if number % 5 == 0 else "1",
        sequence_number=f"{number:020d}" if fifo else "",
        message_group_id=f"g{number % 3}" if fifo else "",
        message_deduplication_id="again" if fifo else "",
        trace_header="Root=1" if number % 7 == 0 else "",
    )


def messages(topic: Topic, numbers: range, now_ms: int, total: int = 30) -> list[Notification]:
    """Some of `total` messages, which are spread over the last three days."""
    return [message(topic, number, now_ms - 3 * DAY_MS + number * 3 * DAY_MS // total) for number in numbers]


class Archives:
    """The stores that archives are made in, of either form of the service."""

    def __init__(self, topics: TopicStore, archives: ArchiveStore) -> None:
        self._topics = topics
        self._archives = archives

    async def create(self, topic: Topic) -> None:
        await self._topics.create(topic)

    async def append(self, topic: Topic, notifications: Sequence[Notification], accepted_ms: int = 0) -> None:
        assert topic.archive is not None
        await self._archives.append(
            topic.archive.id,
            [
                ArchivedMessage(at_ms, archive_key(each), at_ms + KEPT_DAYS * DAY_MS, each)
                for each in notifications
                for at_ms in [archived_at_ms(each, accepted_ms)]
            ],
        )


@asynccontextmanager
async def embedded_archives(data: Path) -> AsyncIterator[Archives]:
    database = Database(data, Clock())
    archives = Archives(EmbeddedTopicStore(database), EmbeddedArchiveStore(database))
    database.start(asyncio.get_running_loop())
    try:
        yield archives
    finally:
        await database.close()


def append(data: Path, topic: Topic, notifications: Sequence[Notification], accepted_ms: int = 0) -> None:
    """Create the topic if it is not there, and append to its archive."""

    async def work() -> None:
        async with embedded_archives(data) as archives:
            await archives.create(topic)
            await archives.append(topic, notifications, accepted_ms)

    asyncio.run(work())


def table_rows(out: Path) -> list[tuple[Any, ...]]:
    """Every row of the archive table, read from all its files, sorted."""
    pattern = str(out / "archive" / "topic=*" / "date=*" / "*.parquet")
    if not list((out / "archive").glob("topic=*/date=*/*.parquet")):
        return []
    query = f"SELECT * FROM read_parquet('{pattern}', hive_partitioning = false) ORDER BY topic_arn, key"
    with duckdb.connect() as connection:
        rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
    return rows


def files_below(out: Path) -> list[str]:
    """The files of the archive table and of its runs; versions in their names are left out."""
    paths = [path.relative_to(out) for path in (out / "archive").rglob("*") if path.is_file()]
    return sorted("/".join((*path.parts[:-1], path.name.partition("-")[2] or path.name)) for path in paths)
