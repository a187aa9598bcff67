"""Prints the commands for a backup of the cluster form, whose data are in Cassandra."""

from __future__ import annotations

import sys

from cns_common.configuration.settings import Settings

EXIT_ELSEWHERE = 2


def print_cluster_steps(settings: Settings) -> int:
    """Print the commands. The exit code says that nothing was done."""
    keyspace = settings.cassandra_keyspace
    print(f"nodetool flush {keyspace}                    # on each node of Cassandra")
    print(f"nodetool snapshot -t cns-$(date +%F) {keyspace}  # on each node; copy its snapshots elsewhere")
    print("cns schema show > schema.cql                  # the tables")
    if not settings.master_key:
        print(f"cp -p {settings.data.absolute()}/master.key .   # the same for all processes")
    print("# to restore: cns schema apply, then sstableloader or nodetool refresh on each node; Redis fills itself")
    print("cns: the store is Cassandra's: run these, nothing was copied", file=sys.stderr)
    return EXIT_ELSEWHERE
