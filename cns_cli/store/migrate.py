"""`cns migrate`: moves one installation between a data directory and a cluster, both ways (ADR 0039)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cns_cli.activity import recorded
from cns_cli.options import Data, Json, Yes, confirm
from cns_cli.output import print_json, refuse
from cns_cli.store_access import run_command
from cns_common.configuration.settings import load_settings

if TYPE_CHECKING:  # the cluster's drivers
    from cns_backend.transfer.moves import Move

CLUSTER = "cassandra"
SECONDS = {True: 35, False: 25}
"""The standstill for 100,000 messages to a cluster, and from one, as measured on 2 cores: docs/performance.md."""
FIXED_S = 5


def migrate(
    source: Annotated[str, typer.Option("--from", metavar="DIR|cassandra", help="The store to move.")],
    target: Annotated[str, typer.Option("--to", metavar="DIR|cassandra", help="An empty store.")],
    reopen: Annotated[bool, typer.Option("--reopen", help="End a run, or take back what was moved.")] = False,
    yes: Yes = False,
    data: Data = None,
    json: Json = False,
) -> None:
    """Move everything from a data directory to a cluster, or back. No service may run on either side. If it is cut off,
    run it again. The source serves nobody afterwards; --reopen takes it back, and closes the target instead.

    Example: cns migrate --from data --to cassandra
    """
    if (source == CLUSTER) == (target == CLUSTER):
        refuse(f"one of --from and --to is {CLUSTER}, the other one a data directory")
    from cns_backend.transfer import run  # only this form has its drivers installed
    from cns_backend.transfer.places import Places

    settings = load_settings(data)
    to_cluster = target == CLUSTER
    directory = Path(source if to_cluster else target)

    async def reopened() -> tuple[str, str]:
        def ask(left: str) -> None:
            text = f"What {left} got since then stays there, and it serves nobody. " if left else ""
            confirm(f"{text}Open {source} again?", yes=yes)

        return await run.reopen(Places(directory, settings, to_cluster=to_cluster), ask)

    async def moved() -> run.Moved:
        def ask(messages: int, move: Move) -> None:
            fixed_s = FIXED_S if to_cluster else FIXED_S + run.LATE_S
            seconds = fixed_s + messages * SECONDS[to_cluster] / 100_000
            again = "going on with the move" if move.resumed else "moving"
            print(
                f"cns: {again} of {messages} messages: nothing serves for about {seconds:.0f} s"
                f" ({SECONDS[to_cluster]} s for 100,000 messages)",
                file=sys.stderr,
            )
            confirm("Begin?", yes=yes or move.resumed)

        places = Places(directory, settings, to_cluster=to_cluster)
        return await run.migrate(places, ask, lambda what: print(f"cns: {what}", file=sys.stderr))

    if reopen:
        opened, left = run_command(reopened)
        with recorded(directory, "ReopenStore", opened, f"{left} is closed" if left else ""):
            pass  # as below
        if json:
            print_json([{"opened": opened, "left": left}])
        else:
            print(f"cns: {opened} is open again" + (f"; {left} serves nobody" if left else ""))
        return
    done = run_command(moved)
    with recorded(directory, "MoveStore", done.target, f"from {done.source}"):
        pass  # done above: a refused move writes nothing, not even this record
    if json:
        print_json([done])
        return
    print(
        f"cns: {done.source} is in {done.target}: {sum(done.records.values())} records, {done.messages} messages in"
        f" {done.queues} queues, {done.files} files, after {done.seconds:.0f} s"
    )
    print("cns: messages that were in flight are visible again, and their receipt handles are not valid")
    if to_cluster:
        key = settings.data / "master.key"
        print(f"cns: each machine of the cluster needs the same master key: CNS_MASTER_KEY, or the file {key}")
