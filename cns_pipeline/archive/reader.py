"""Opens the reader of the archives in the service's store, in Spark's driver and in its tasks, while the service runs.

Each read returns one page. On SQLite it is a read-only transaction of its own, so that checkpoints of the write-ahead
log can run in between. On Cassandra it is a query at the consistency of the service.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cns_pipeline.archive.contract import ArchiveReader

if TYPE_CHECKING:  # its module loads the driver
    from cns_common.cassandra.connection import CassandraAddress


@dataclass(frozen=True, slots=True)
class StorePlace:
    """The address of the store, for Spark's tasks. One of the two fields is set."""

    sqlite: Path | None = None
    cassandra: CassandraAddress | None = None


@contextmanager
def open_reader(place: StorePlace) -> Iterator[ArchiveReader]:
    """Import the driver only when it is used: Cassandra's is installed in the cluster form only."""
    if place.cassandra is not None:
        from cns_pipeline.archive.cassandra_reader import open_cassandra_reader

        with open_cassandra_reader(place.cassandra) as cassandra:
            yield cassandra
    else:
        assert place.sqlite is not None
        from cns_pipeline.archive.sqlite_reader import open_sqlite_reader

        with open_sqlite_reader(place.sqlite) as sqlite:
            yield sqlite
