"""The statements that one call sends to Cassandra, without those of background work."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import pytest

from cns_common.cassandra.session import Cassandra, Row, Statement

Sent = tuple[Statement, tuple[object, ...]]
_recorded: ContextVar[list[Sent] | None] = ContextVar("recorded", default=None)
"""Tasks inherit it from the call that starts them; background tasks were started before."""


def record(monkeypatch: pytest.MonkeyPatch) -> list[Cassandra]:
    """Record from now on, within `recording`. Returns a list of the sessions that were used."""
    sessions: list[Cassandra] = []
    run, run_batch = Cassandra.run, Cassandra.run_batch
    run_conditional_batch = Cassandra.run_conditional_batch

    def note(session: Cassandra, parts: Sequence[tuple[Statement, Sequence[object]]]) -> None:
        found = _recorded.get()
        if found is not None:
            sessions.append(session)
            found += [(statement, tuple(values)) for statement, values in parts]

    async def noted(self: Cassandra, statement: Statement, *values: object) -> list[Row]:
        note(self, [(statement, values)])
        return await run(self, statement, *values)

    async def noted_batch(self: Cassandra, parts: Sequence[Sent], *, logged: bool) -> None:
        note(self, parts)
        await run_batch(self, parts, logged=logged)

    async def noted_conditional_batch(self: Cassandra, parts: Sequence[Sent]) -> bool:
        note(self, parts[:1])  # a conditional batch is one round of Paxos
        return await run_conditional_batch(self, parts)

    monkeypatch.setattr(Cassandra, "run", noted)
    monkeypatch.setattr(Cassandra, "run_batch", noted_batch)
    monkeypatch.setattr(Cassandra, "run_conditional_batch", noted_conditional_batch)
    return sessions


@contextmanager
def recording() -> Iterator[list[Sent]]:
    found: list[Sent] = []
    token = _recorded.set(found)
    try:
        yield found
    finally:
        _recorded.reset(token)


def conditional(sent: Sequence[Sent]) -> list[str]:
    return [statement.cql for statement, _ in sent if re.search(r"\bIF\b", statement.cql)]


def reads(sent: Sequence[Sent]) -> list[Sent]:
    return [one for one in sent if one[0].cql.startswith("SELECT")]


def kinds(sent: Sequence[Sent]) -> list[tuple[str, str]]:
    """(INSERT, UPDATE, DELETE or SELECT; table) of each statement."""
    return [(statement.cql.split()[0], _table(statement)) for statement, _ in sent]


def _table(statement: Statement) -> str:
    found = re.search(r"(?:INTO|UPDATE|FROM) (\w+)", statement.cql)
    assert found, statement.cql
    return found[1]


def tables_read(sent: Sequence[Sent]) -> set[str]:
    return {_table(statement) for statement, _ in reads(sent)}


async def tombstones(session: Cassandra, sent: Sequence[Sent]) -> int:
    """The number of removed rows that Cassandra passes over in these reads, by its trace."""

    def trace(statement: Statement, values: tuple[object, ...]) -> list[str]:
        driver = session._connection.session
        answer = driver.execute(driver.prepare(statement.cql).bind(values), trace=True)
        return [str(event.description) for event in answer.get_query_trace(10).events]

    passed = 0
    for one in reads(sent):
        found = [re.search(r"(\d+) tombstone", text) for text in await asyncio.to_thread(trace, *one)]
        passed += sum(int(match[1]) for match in found if match)
    return passed
