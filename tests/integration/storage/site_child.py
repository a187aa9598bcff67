"""A process of the active site dc1 that writes to both sites, until it is killed or its standard input ends."""

from __future__ import annotations

import asyncio
import sys

from cns_backend.sites import schema
from cns_backend.sites.membership import SiteMembership
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.logs import set_up_logs
from cns_common.task_cancellation import cancel_and_wait
from cqs.engines.cassandra import schema as queues
from tests.integration.storage.two_sites import LinkedStore

TTL_S = 3_600
"""The life of the row by which it acts: it expires when the test says so."""


async def main(host: str, port: str, keyspace: str) -> None:
    set_up_logs("error", "child")  # what it prints is for the test
    schema.TTL_S = TTL_S
    address = CassandraAddress(hosts=(host,), port=int(port), keyspace=keyspace)
    session = await Cassandra.open(address)
    own = SiteMembership(LinkedStore(session), Clock(), "dc1", "dc2", writes_each=True)
    await own.look()
    running = asyncio.create_task(own.run())
    cassandra = await Cassandra.open(address, site=own)
    await cassandra.run(queues.ADD_GARBAGE, "cqs", "q", 1)
    print("acts", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await cassandra.close()
    await cancel_and_wait([running])
    await own.stand_by()
    await session.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
