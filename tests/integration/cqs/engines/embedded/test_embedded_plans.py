"""The query plans of the embedded engine and its queue store: each statement uses an index. docs/engines.md relies on
this."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import apsw
import apsw.ext
import pytest

from cns_common.clock import Clock
from cns_common.sqlite.database import Database
from cqs.engines.embedded import schema
from cqs.engines.embedded.engine import EmbeddedEngine
from cqs.queues.model import Queue
from cqs.stores.embedded import queues as queue_store
from cqs.stores.embedded.queues import EmbeddedQueueStore
from tests.integration.cqs.engines.embedded.test_embedded_engine import MORE_WORK_MAX, StepCounter

VERBS = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ")
SCANS = {
    # The index has doomed generations only, and one of them is enough.
    "RETIRED_GENERATION": "SCAN lines USING COVERING INDEX lines_doomed",
    # In the order of its key, up to a limit.
    "LIST_EXPIRED": "SCAN expired",
    # The index has undropped queues only. Used once, at the start.
    "_UNDROPPED": "SCAN deleted_queues USING INDEX deleted_undropped",
    # A table of one row. Used by `cns migrate` only.
    "RAISE_BOOT": "SCAN meta",
}
SORTS = {"COUNT_HIDDEN", "COUNT_HIDDEN_UNTIL", "ORIGINALS"}
"""These group or order their result: hidden messages at a queue's first use, those that become visible within a tenth
of a second, and for `cns migrate` the deduplication ids of one queue."""
FEW, MANY = 20, 2_000


def _statements(module: ModuleType) -> dict[str, str]:
    """Complete statements. A private name may be a part of one, in a module that also has public names."""
    names = [name for name in vars(module) if name.isupper()]
    private = all(name.startswith("_") for name in names if str(vars(module)[name]).startswith(VERBS))
    texts = {name: vars(module)[name] for name in names if private or not name.startswith("_")}
    return {name: text for name, text in texts.items() if isinstance(text, str) and text.startswith(VERBS)}


STATEMENTS = {**_statements(schema), **_statements(queue_store)}


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    clock = Clock()
    database = Database(tmp_path, clock)
    EmbeddedEngine(database, clock)
    EmbeddedQueueStore(database)
    database.start(asyncio.get_running_loop())
    yield database
    await database.close()


def _plan(database: Database, statement: str) -> list[str]:
    def lines(plan: apsw.ext.QueryPlan | None) -> Iterator[str]:
        if plan is not None:
            yield plan.detail
            for step in plan.sub or ():
                yield from lines(step)

    return list(lines(apsw.ext.query_info(database.connection, statement, explain_query_plan=True).query_plan))


def test_statements_are_found() -> None:
    assert {"DUE", "HEADS_DUE", "PROMOTE", "DELETE_LEASED", "PEEK_BEHIND", "_LIST", "_SOURCES"} <= STATEMENTS.keys()


async def test_no_statement_scans_a_queue_table(database: Database) -> None:
    plans = {name: _plan(database, text) for name, text in STATEMENTS.items()}
    scans = {name: step for name, plan in plans.items() for step in plan if step.startswith("SCAN ")}
    assert scans == SCANS
    assert {name for name, plan in plans.items() if any("TEMP B-TREE" in step for step in plan)} == SORTS


async def test_a_plan_with_a_scan_is_detected(database: Database) -> None:
    plan = _plan(database, "SELECT seq FROM slots WHERE line = ? UNION SELECT seq FROM slots WHERE born_at = ?")
    assert "SCAN slots" in plan


async def test_no_call_costs_more_among_many_queues(database: Database) -> None:
    store = EmbeddedQueueStore(database)
    work = StepCounter(database)
    costs: list[dict[str, int]] = []
    for account, n in (("111111111111", FEW), ("222222222222", MANY)):
        target = _queue(account, "target")
        redrive = {"RedrivePolicy": f'{{"deadLetterTargetArn":"{target.arn}","maxReceiveCount":5}}'}
        queues = [_queue(account, f"q-{number:05}", redrive) for number in range(n)]
        await asyncio.gather(*[store.create(queue) for queue in queues])
        last, region = queues[-1], target.region
        costs.append(
            {
                "get": await work.of(partial(store.get, last.key)),
                "create": await work.of(partial(store.create, target)),
                "list": await work.of(partial(store.list_names, account, region, "", "", 10)),
                "list the last": await work.of(partial(store.list_names, account, region, last.name, "", 10)),
                "list after": await work.of(partial(store.list_names, account, region, "q", queues[-11].name, 10)),
                "sources": await work.of(partial(store.dead_letter_sources, target.arn, queues[-11].name, 10)),
                "deleted": await work.of(partial(store.deleted_at_ms, last.key)),
                "delete": await work.of(partial(store.delete, last, 0)),
            }
        )
    few, many = costs
    assert {name for name in many if many[name] > few[name] * MORE_WORK_MAX + 20} == set()


def _queue(account: str, name: str, attributes: dict[str, str] | None = None) -> Queue:
    return Queue(
        id=f"{account}-{name}",
        account=account,
        region="us-east-1",
        name=name,
        engine="embedded",
        created_ms=0,
        modified_ms=0,
        attributes=attributes or {},
    )
