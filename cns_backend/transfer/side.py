"""The contract of a side, one of the two stores that `cns migrate` moves an installation between, and of what it
moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

import apsw

from cns_backend.backend import Backend
from cns_common.cassandra.session import Cassandra

Row = tuple[Any, ...]


class Side(Protocol):
    """An opened store that no service uses."""

    where: str
    """The store, as messages call it."""
    engine: str
    """The engine that its queues have."""
    backend: Backend

    def read(self, kind: Kind) -> AsyncIterator[list[Row]]:
        """The rows of a kind, in pages, without those that belong to deleted things."""
        ...

    async def write(self, kind: Kind, rows: Sequence[Row]) -> None: ...

    async def job_queues(self) -> list[str]:
        """The names of the internal queues that have messages, sorted."""
        ...

    async def count_messages(self) -> int:
        """The number of stored messages, about: for an estimate."""
        ...


PutRow = Callable[[apsw.Connection, Row], object]
RunRow = Callable[[Cassandra, Row], Awaitable[object]]
Live = Callable[[Cassandra, Backend, Row], Awaitable[Row | None]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record. Rows are written by `put` (store methods), or by `insert` and `run` (statements)."""

    name: str
    embedded: str
    """The query of all rows."""
    group: Callable[[Row], str]
    """The account, topic or the like under which a row is counted and compared."""
    _: KW_ONLY
    cassandra: str = ""
    """The same for Cassandra, where it is another one."""
    put: Callable[[Side, Row], Awaitable[object]] | None = None
    insert: PutRow | None = None
    run: RunRow | None = None
    live: Live | None = None
    """In Cassandra: completes a row; None for what is left of something deleted or never created."""
    compared: Callable[[Row], object] = lambda row: row
    """The part of a row that is the same in both forms."""
    plain: Callable[[Row], Row] = tuple
    """The row as both forms have it: decoded, without null."""
    pages: Callable[[Side], AsyncIterator[list[Row]]] | None = None
    """Reads the rows where no statement can."""
