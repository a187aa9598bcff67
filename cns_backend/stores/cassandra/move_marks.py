"""The mark of `cns migrate` on a keyspace: a conditional row of `cluster_state`."""

from __future__ import annotations

import msgspec

from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.errors import EXIT_CASSANDRA_UNUSABLE
from cns_common.move_mark import MoveMark, refusal

NAME = "move"
_GET = Statement(f"SELECT value FROM cluster_state WHERE name = '{NAME}'")
_FIRST = Statement(f"INSERT INTO cluster_state(name, value) VALUES ('{NAME}', ?) IF NOT EXISTS", idempotent=False)
_NEXT = Statement(f"UPDATE cluster_state SET value = ? WHERE name = '{NAME}' IF value = ?", idempotent=False)
_END = Statement(f"DELETE FROM cluster_state WHERE name = '{NAME}' IF value = ?", idempotent=False)

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(MoveMark).decode


class CassandraMoveMarks:
    """See `cns_backend.transfer.moves.MoveMarks`."""

    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def read(self) -> MoveMark | None:
        for (value,) in await self._cassandra.run(_GET):
            return _decode(value)
        return None

    async def swap(self, before: MoveMark | None, after: MoveMark | None) -> bool:
        statement = _END if after is None else _FIRST if before is None else _NEXT
        values = [_encode(mark) for mark in (after, before) if mark is not None]

        async def ours() -> bool:
            return await self.read() == after

        return await resolve_lost_write(lambda: self._cassandra.run_conditional(statement, *values), ours)


async def check_unmoved(cassandra: Cassandra, keyspace: str) -> None:
    """Raise StartError for a keyspace that `cns migrate` has marked."""
    mark = await CassandraMoveMarks(cassandra).read()
    if mark is not None:
        raise refusal(mark, f"keyspace {keyspace}", EXIT_CASSANDRA_UNUSABLE)
