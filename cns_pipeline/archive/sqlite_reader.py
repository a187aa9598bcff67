"""Reads archives from the file of the embedded store, also while the service runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from cns.archives.model import ArchivedMessage
from cns.notification import Notification
from cns.stores.embedded import archive_schema, schema
from cns.topics.topic import Topic
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.durations import DAY_MS
from cns_common.errors import StartError
from cns_pipeline.archive import PAGE_MESSAGES
from cns_pipeline.archive.contract import ArchiveReader

BUSY_MS = 5_000
TOPICS_A_PAGE = 500

_topic = msgspec.msgpack.Decoder(Topic).decode
_notification = msgspec.msgpack.Decoder(Notification).decode


@contextmanager
def open_sqlite_reader(path: Path) -> Iterator[SqliteReader]:
    """Raises StartError if the store cannot be read."""
    connection: apsw.Connection | None = None
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(BUSY_MS)
        yield SqliteReader(connection)
    except apsw.Error as error:
        raise StartError(f"cannot read the archives in {path}: {error}", EXIT_DATA_UNUSABLE) from error
    finally:
        if connection is not None:
            connection.close()


class SqliteReader(ArchiveReader):
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def topics(self) -> Iterator[Topic]:
        after = ""
        while rows := self._rows(schema.ALL_TOPICS, after, TOPICS_A_PAGE):
            for _, record in rows:
                topic = _topic(record)
                if topic.archive is not None:
                    yield topic
            after = rows[-1][0]

    def days(self, archive_id: str, since_ms: int, until_ms: int) -> list[int]:
        """One index lookup for each day."""
        found: list[int] = []
        at_ms = since_ms
        while rows := self._rows(archive_schema.FIRST_TIME_FROM, archive_id, at_ms, until_ms):
            found.append(rows[0][0] // DAY_MS)
            at_ms = (found[-1] + 1) * DAY_MS
        return found

    def messages(self, archive_id: str, since_ms: int, until_ms: int) -> Iterator[ArchivedMessage]:
        after: tuple[int, str] = (since_ms - 1, archive_schema.AFTER_ALL)
        while rows := self._rows(archive_schema.TIME_PAGE, archive_id, *after, until_ms, PAGE_MESSAGES):
            for key, at_ms, expires_ms, record in rows:
                yield ArchivedMessage(at_ms, key, expires_ms, _notification(record))
            after = (rows[-1][1], rows[-1][0])

    def _rows(self, statement: str, *values: object) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()
