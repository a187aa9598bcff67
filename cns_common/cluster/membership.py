"""The row by which a process shows the others of a group that it lives. Its time to live ends by Cassandra's clock, so
the clocks of the processes do not matter.

A process is *certain* of its row for a while after it began to write it. The row lives longer: whoever waits until a
row has expired, waits for a process that may still be certain.
"""

from __future__ import annotations

from typing import NamedTuple

from cns_common.cassandra.session import Cassandra, Statement
from cns_common.clock import Clock
from cns_common.cluster.lease import Lease, LeaseTimes
from cns_common.cluster.stopwatch import Stopwatch


class MemberRows(NamedTuple):
    """The statements of a group's rows."""

    write: Statement
    """Its values: those of the group's key, the process's name, what the process says, seconds to live."""
    remove: Statement
    """Its values: those of the group's key, the process's name."""
    ttl_s: int
    times: LeaseTimes


class Membership:
    def __init__(self, cassandra: Cassandra, clock: Clock, rows: MemberRows, process: str, *group: object) -> None:
        self._cassandra = cassandra
        self.rows = rows
        self._group = group
        self.process = process
        self.lease = Lease(clock, rows.times)

    async def show(self, *says: object) -> Stopwatch:
        """Write the row, with what the process says. Returns the moment before: `lease.hold` takes it if nothing else
        must be known."""
        since = self.lease.begin()
        await self._cassandra.run(self.rows.write, *self._group, self.process, *says, self.rows.ttl_s)
        return since

    async def renew(self, *says: object) -> bool:
        """Write the row, and be certain of it. Returns whether it was there all the time since the last renewal."""
        since = await self.show(*says)
        lasted = self.lease.is_certain
        self.lease.hold(since)
        return lasted

    async def leave(self) -> None:
        self.lease.end()
        await self._cassandra.run(self.rows.remove, *self._group, self.process)
