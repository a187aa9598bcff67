"""A process that is killed records nothing: the other site may lack its last writes, so a change of sites in order asks
for a repair."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from cns_backend.schema import table_names
from cns_backend.sites import schema
from cns_backend.sites import store as site_store
from cns_backend.sites.gaps import TOKEN_MIN
from cns_backend.sites.membership import SiteMembership
from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cns_pytest.http import POLL_INTERVAL_S
from lab.harness.waiting import PATIENCE_S
from tests.integration.storage.two_sites import TO_DC2, Site

LACKS = "may lack writes that were accepted .* by processes that were killed: run"


@contextmanager
def _process(address: CassandraAddress) -> Iterator[subprocess.Popen[str]]:
    """A process of dc1 that has written to both sites."""
    words = [sys.executable, "-m", "tests.integration.storage.site_child", *address.hosts, str(address.port)]
    pipe = subprocess.PIPE
    with subprocess.Popen([*words, address.keyspace], stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "acts\n"
            yield process
        finally:
            process.kill()


async def test_a_killed_process_asks_for_a_repair(
    site: Site, cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _process(cassandra_address) as killed, _process(cassandra_address) as ended:
        assert await site.operator.lacking("dc2", everywhere=True) is None
        ended.communicate(timeout=PATIENCE_S)
        assert ended.returncode == 0
        assert await site.operator.lacking("dc2", everywhere=True) is None
        killed.kill()
        killed.wait()
    (left,) = (await site.store.decision()).processes
    activation = asyncio.create_task(site.operator.activate(TO_DC2))
    while await site.active() and not activation.done():
        await asyncio.sleep(POLL_INTERVAL_S)  # until the activation has ended the work of dc1
    assert not activation.done(), "it waits for the row of the process"
    monkeypatch.setattr(site_store, "_ROWS", site_store._ROWS._replace(ttl_s=1))
    row = site.store.membership(Clock(), left.process)
    await row.show(left.site, left.epoch)  # its last renewal: Cassandra ends the row
    with pytest.raises(ValueError, match="the gap still goes on"):
        await activation
    assert await site.active() == "dc1"
    monkeypatch.setattr(site_store, "GAP_MS", 0)
    gap = await site.operator.lacking("dc2", everywhere=True)
    assert gap is not None
    with pytest.raises(ValueError, match=LACKS):
        await site.operator.activate(TO_DC2)
    await site.record_repair(table_names(), [f"({TOKEN_MIN},{TOKEN_MIN}]"], gap.until_ms)
    assert (await site.operator.activate(TO_DC2)).active == "dc2"
    assert await site.operator.lacking("dc2", everywhere=True) is None


async def test_all_rows_of_ended_processes_are_read_and_forgotten(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    one_row = schema.WRITERS.cql.replace(f"LIMIT {schema.WRITERS_PAGE}", "LIMIT 1")
    monkeypatch.setattr(schema, "WRITERS", replace(schema.WRITERS, cql=one_row))
    for number in range(3):
        await site.store.show_writer("dc2", 1, f"{number}")
    await site.store.show_writer("dc2", 2, "of a later activation")
    assert len(await site.store.unended("dc2")) == 4
    await site.store.forget_gaps("dc2", 2)
    assert len(await site.store.unended("dc2")) == 1


@pytest.mark.parametrize("other_answers", [True, False])
async def test_without_the_other_site_nobody_sees_who_was_killed(site: Site, other_answers: bool) -> None:
    await site.store.show_writer("dc2", 1, "killed")
    site.store.reachable = other_answers
    change = TO_DC2._replace(other_lost=not other_answers)
    if other_answers:
        with pytest.raises(ValueError, match="that were killed"):
            await site.operator.activate(change)
    else:
        assert (await site.operator.activate(change)).active == "dc2"


async def test_writes_that_never_wait_for_the_other_site_are_not_recorded(site: Site) -> None:
    process = SiteMembership(site.store, Clock(), "dc1", "dc2", writes_each=False)
    await process.look()
    assert process.acting.is_set()
    assert await site.store.unended("dc2") == []
    await process.stand_by()
