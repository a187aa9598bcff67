"""The table of the active site, in one partition, and its statements.

The static columns are the decision; the rows are the processes that act by one, each for `TTL_S`.
"""

from __future__ import annotations

from cns_common.cassandra.session import Consistency, Statement

TTL_S = 6
PROCESSES_MAX = 1_000
READ_S = 2.0
"""A site that does not answer for this long counts as not reachable."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS active_site (one int, process text, active text static, epoch int static,"
    " alone boolean static, site text, seen int, PRIMARY KEY (one, process)) WITH gc_grace_seconds = 3600",
)

_READ = f"SELECT active, epoch, alone, process, site, seen FROM active_site WHERE one = 1 LIMIT {PROCESSES_MAX}"
READ_HERE = Statement(_READ, try_s=READ_S)
READ_EVERYWHERE = Statement(_READ, try_s=READ_S, consistency=Consistency.EACH)
RENEW = Statement("INSERT INTO active_site (one, process, site, seen) VALUES (1, ?, ?, ?) USING TTL ?")
LEAVE = Statement("DELETE FROM active_site WHERE one = 1 AND process = ?")

_DECIDE = "UPDATE active_site SET active = ?, epoch = ?, alone = ? WHERE one = 1 IF epoch = "
DECIDE = Statement(f"{_DECIDE}?", idempotent=False, across_sites=True)
DECIDE_FIRST = Statement(f"{_DECIDE}null", idempotent=False, across_sites=True)
"""Decided by a majority of the replicas of all sites, and stored by a quorum of each."""
DECIDE_ALONE = Statement(f"{_DECIDE}?", idempotent=False)
DECIDE_FIRST_ALONE = Statement(f"{_DECIDE}null", idempotent=False)
"""Decided by the replicas of this site: the other one is lost."""
END_ALONE = Statement(
    "UPDATE active_site SET alone = false WHERE one = 1 IF epoch = ?", idempotent=False, across_sites=True
)
