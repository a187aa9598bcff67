"""Times of operations on queues of the cluster form by their depth, and by their hidden messages.

    python -m lab.bench.depths [--depths 1000,100000,1000000] [--hidden 0,10000,100000] [--cycles 300] [--tenants 0]

One API process on Cassandra and Redis, as the tests take them. All queues exist at the same time and are measured in
turn, one call at a time. With `--tenants` the queues are fair, and one tenant has 40 messages in flight. Filling takes
most of the time: a million messages some minutes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import uvloop

from lab.bench.sections.cluster import SERVICE, SIDES, environment_of, single_node
from lab.bench.sections.curves import BAR, FILLERS, HOLD_S, receive_noisy
from lab.bench.sections.depth import DepthFigures, Side, compare, handles_of, messages, receive
from lab.bench.sections.queue_kinds import Kind, QueueFiller
from lab.harness.server import Server, running
from lab.load.queues import BATCH, Client
from lab.load.wire import Budget, LoadError, Script, connect, run
from lab.measure.figures import bar_cell

SHALLOW = 1_000
"""Visible messages of a queue with hidden ones."""
HIDE_SECONDS_MAX = 900.0


async def by_depth(server: Server, kind: Kind, depths: Sequence[int], cycles: int) -> list[DepthFigures]:
    return await _compare(server, kind, [(depth, depth, 0) for depth in depths], cycles)


async def by_hidden(server: Server, kind: Kind, hidden: Sequence[int], cycles: int) -> list[DepthFigures]:
    """`depth` of the figures is the number of hidden messages."""
    return await _compare(server, kind, [(n, SHALLOW, n) for n in hidden], cycles)


async def _compare(
    server: Server, kind: Kind, queues: Sequence[tuple[int, int, int]], cycles: int
) -> list[DepthFigures]:
    """Each queue has a number by which it is shown, and its visible and hidden messages."""
    sides: list[Side] = []
    for shown, visible, hidden in queues:
        client = Client(server, await connect(server.port, FILLERS), seed=1)
        filler = QueueFiller(client, kind, visible + hidden)
        await filler.use_queue(f"{visible}-{hidden}")
        if kind.fair:
            await receive_noisy(client)
        await filler.fill(visible + hidden)
        await _hide(client, hidden)
        sides.append(Side(shown, client, partial(messages, filler)))
        print(f"filled: {visible:,} visible, {hidden:,} hidden", flush=True)
    figures = await compare(sides, cycles)
    for side in sides:
        side.client.close()
    return figures


async def _hide(client: Client, n: int) -> None:
    """Receive messages in batches of ten over all connections."""
    budget = Budget(n, HIDE_SECONDS_MAX)

    def script() -> Script:
        while budget.take(BATCH):
            handles_of((yield [], receive(client, BATCH, HOLD_S)), BATCH)

    await run(client.lanes, [script() for _ in client.lanes])
    if budget.left:
        raise LoadError(f"{budget.left:,} of {n:,} messages could not be hidden within {HIDE_SECONDS_MAX:.0f} s")


def table(title: str, curve: Sequence[DepthFigures]) -> list[str]:
    return [
        f"| mean ms at {title} of | {' | '.join(f'{one.depth:,}' for one in curve)} | last : first | bar |",
        "|---" * (len(curve) + 3) + "|",
        *[
            f"| {operation} | {' | '.join(f'{one.mean_ms[operation]:.2f}' for one in curve)} |"
            f" **{ratio:.2f}** | {bar_cell(f'≤ {BAR}', met=ratio <= BAR)} |"
            for operation in curve[0].mean_ms
            for ratio in [curve[-1].mean_ms[operation] / curve[0].mean_ms[operation]]
        ],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--depths", default="1000,100000,1000000")
    parser.add_argument("--hidden", default="0,10000,100000")
    parser.add_argument("--cycles", type=int, default=300)
    parser.add_argument("--tenants", type=int, default=0, help="of fair queues; 0: the queues are not fair")
    given = parser.parse_args()
    depths, hidden = ([int(number) for number in text.split(",")] for text in (given.depths, given.hidden))
    kind = Kind(name="standard", file="depth", groups_max=given.tenants)
    with (
        single_node() as place,
        tempfile.TemporaryDirectory() as scratch,
        running("service", SIDES[SERVICE], Path(scratch), environment_of(place)) as server,
    ):
        deep = uvloop.run(by_depth(server, kind, depths, given.cycles))
        held = uvloop.run(by_hidden(server, kind, hidden, given.cycles))
    print("\n".join([*table("a depth", deep), "", *table("hidden messages", held)]))


if __name__ == "__main__":
    main()
