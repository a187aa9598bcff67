"""The end of a session, whatever the driver waits for."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import cast

import pytest

from cns_common.cassandra import session
from cns_common.cassandra.connection import CassandraAddress, CassandraConnection
from cns_common.cassandra.session import Cassandra
from cns_common.cassandra.site_guard import OneSite
from cns_common.cassandra.write_timestamps import WriteDates
from lab.harness.waiting import PATIENCE_S


async def test_a_driver_that_hangs_does_not_keep_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CLOSE_S_MAX", 0.01)
    end, threads = threading.Event(), list[threading.Thread]()

    def hang() -> None:
        threads.append(threading.current_thread())
        end.wait()

    connection = cast("CassandraConnection", SimpleNamespace(cluster=SimpleNamespace(shutdown=hang)))
    loop = asyncio.get_running_loop()
    cassandra = Cassandra(CassandraAddress(hosts=("none",)), connection, loop, WriteDates(), OneSite())
    cassandra._reconnecting = loop.create_task(asyncio.Event().wait())  # type: ignore[arg-type]  # it hangs, too
    async with asyncio.timeout(PATIENCE_S):
        await cassandra.close()
    assert [thread.daemon for thread in threads] == [True]
    assert threads[0].is_alive()
    end.set()
    cassandra._reconnecting.cancel()
