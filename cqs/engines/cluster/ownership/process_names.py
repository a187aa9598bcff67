"""The name of a process, by which buckets, leases and claims tell it from all others. No other process gets it until 31
days after the process's end: `LiveProcesses` renews it."""

from __future__ import annotations

from cns_common.cassandra.background_work import MEMBERSHIP, background
from cns_common.cassandra.session import Cassandra
from cns_common.errors import CnsError
from cns_common.ids import hex_id
from cqs.engines.cluster.ids import NODE_DIGITS
from cqs.engines.cluster.ownership import schema


async def new_process_name(cassandra: Cassandra) -> str:
    """A name that no process had while a message of it may exist, ensured by one conditional write. If Cassandra does
    not answer, the name is merely 32 random bits until the first renewal."""
    while True:
        name = hex_id()[:NODE_DIGITS]
        try:
            with background(MEMBERSHIP):
                is_new = await cassandra.run_conditional(schema.NAME, name)
        except CnsError:  # a service starts while Cassandra is away, too
            return name
        if is_new:
            return name
