"""The tables of the active site and of the writes that a site lacks, and their statements.

`active_site` is one partition: its static columns are the decision, its rows are the acting processes, each for
`TTL_S`. A row of `site_gaps` is a period of which `site` lacks writes, in ms of Cassandra's clock; `epoch` is the
activation of the other site. A row of `site_writers` is a process that writes to both sites, and when it last said so;
the process removes it at an orderly end. That clock also sets the write timestamps of both tables.
"""

from __future__ import annotations

from cns_common.cassandra.session import Consistency, Statement

TTL_S = 6
PROCESSES_MAX = 1_000
GAPS_MAX = 4_000
WRITERS_PAGE = 1_000
REPAIRS_MAX = 4_000
READ_S = 2.0
"""A site that does not answer within this time counts as unreachable."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS active_site (one int, process text, active text static, epoch int static,"
    " alone boolean static, site text, seen int, PRIMARY KEY (one, process)) WITH gc_grace_seconds = 3600",
    "CREATE TABLE IF NOT EXISTS site_gaps (site text, epoch int, since bigint, until bigint,"
    " PRIMARY KEY (site, epoch, since)) WITH CLUSTERING ORDER BY (epoch DESC, since DESC)",
    "CREATE TABLE IF NOT EXISTS site_writers (site text, epoch int, process text, seen bigint,"
    " PRIMARY KEY (site, epoch, process))",
)

_READ = f"SELECT active, epoch, alone, process, site, seen FROM active_site WHERE one = 1 LIMIT {PROCESSES_MAX}"
READ_HERE = Statement(_READ, try_s=READ_S)
READ_EVERYWHERE = Statement(_READ, try_s=READ_S, consistency=Consistency.EACH)
RENEW = Statement("INSERT INTO active_site (one, process, site, seen) VALUES (1, ?, ?, ?) USING TTL ?")
LEAVE = Statement("DELETE FROM active_site WHERE one = 1 AND process = ?")

_DECIDE = "UPDATE active_site SET active = ?, epoch = ?, alone = ? WHERE one = 1 IF epoch = "
DECIDE = Statement(f"{_DECIDE}?", idempotent=False, across_sites=True)
DECIDE_FIRST = Statement(f"{_DECIDE}null", idempotent=False, across_sites=True)
"""Decided by a majority of the replicas of both sites, and stored by a quorum of each."""
DECIDE_ALONE = Statement(f"{_DECIDE}?", idempotent=False)
DECIDE_FIRST_ALONE = Statement(f"{_DECIDE}null", idempotent=False)
"""Decided by the replicas of this site, as the other site is lost."""
END_ALONE = Statement(
    "UPDATE active_site SET alone = false WHERE one = 1 IF epoch = ?", idempotent=False, across_sites=True
)

NOW = Statement("SELECT toUnixTimestamp(now()) FROM system.local")
EXTEND_GAP = Statement("INSERT INTO site_gaps (site, epoch, since, until) VALUES (?, ?, ?, ?) USING TIMESTAMP ?")
_GAPS = f"SELECT since, until FROM site_gaps WHERE site = ? LIMIT {GAPS_MAX}"
GAPS_HERE = Statement(_GAPS)
GAPS_EVERYWHERE = Statement(_GAPS, consistency=Consistency.EACH)
"""Read from each site: this one may lack rows of `site_gaps`, too."""
FORGET_GAPS = Statement(
    "DELETE FROM site_gaps USING TIMESTAMP ? WHERE site = ? AND epoch < ?", consistency=Consistency.EACH
)
"""Limited by epoch: whatever the clocks say, gaps of later activations stay."""
SHOW_WRITER = Statement("INSERT INTO site_writers (site, epoch, process, seen) VALUES (?, ?, ?, ?) USING TIMESTAMP ?")
END_WRITER = Statement("DELETE FROM site_writers USING TIMESTAMP ? WHERE site = ? AND epoch = ? AND process = ?")
WRITERS = Statement(
    f"SELECT epoch, process, seen FROM site_writers WHERE site = ? AND (epoch, process) > (?, ?) LIMIT {WRITERS_PAGE}",
    consistency=Consistency.EACH,
)
FORGET_WRITERS = Statement(
    "DELETE FROM site_writers USING TIMESTAMP ? WHERE site = ? AND epoch < ?", consistency=Consistency.EACH
)
REPAIRS = Statement(
    "SELECT columnfamily_names, successful_ranges, options, finished_at FROM system_distributed.parent_repair_history"
    f" WHERE keyspace_name = ? AND started_at > ? LIMIT {REPAIRS_MAX} ALLOW FILTERING",
    consistency=Consistency.ANYWHERE,
)
"""Cassandra keeps a repair for 30 days, in a keyspace whose replicas need not be at each site."""
