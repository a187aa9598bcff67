"""`make faults`: all rounds against the whole service and of power loss; the findings go into docs/reliability.md.

    python -m lab.faults.run [--rounds N | --in-all N] [--power 20] [--kills 25] [--seed 1]
                         [--only KIND|kills|power|cluster|restarts]

KIND is api, worker (which is producer and consumer) or both: these are the kills; cluster-redis, cluster-worker,
cluster-api, cluster-node, cluster-clocks, cluster-partition or cluster-replica; restarts-embedded, restarts-api-2,
restarts-cluster-up or restarts-cluster-haproxy: one round each, of so many kills. A round that fails is repeated by its
kind and seed:
`--only worker --rounds 1 --seed 17`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lab.faults.cluster.kills import cluster_round
from lab.faults.cluster.plan import CLUSTER_KINDS, LINKED_KINDS, NODE, plan_cluster_round
from lab.faults.cluster.site import site
from lab.faults.power.rounds import power_round
from lab.faults.report import Facts, facts, write_part, write_summary
from lab.faults.restarts.forms import FORMS
from lab.faults.restarts.rounds import KILLS, restart_round
from lab.faults.results import ClusterResult, KillResult, PowerResult, RestartResult, RoundResult
from lab.faults.service.kills import VICTIMS, kill_round, plan_round, set_up
from lab.harness.endpoints import running_receiver
from lab.harness.processes import ROOT
from lab.harness.servers import Ring

LINES = ROOT / "docs" / "reliability.jsonl"
PAGE = ROOT / "docs" / "reliability.md"
POWER = "power"
FAULTS_PRINTED = 10
SAID_APART = ("kind", "seed", "faults")


def main(words: list[str]) -> int:
    options = _options(words)
    machine = facts(f"python -m lab.faults.run {' '.join(words)}".strip())
    invalid = 0
    for part, (kinds, *_) in PARTS.items():
        chosen = [kind for kind in kinds if options.only in (None, part, kind)]
        results = asyncio.run(_run_all(part, chosen, options))
        if len(chosen) == len(kinds):  # a partial run must not replace the results of a full one
            _write(part, machine, results)
        failed = sum(not result.valid for result in results)
        if chosen:
            print(f"{part}: {len(results)} rounds at {machine.commit}, {failed} invalid")
        invalid += failed
    return 1 if invalid else 0


def _write(part: str, machine: Facts, results: list[RoundResult]) -> None:
    kept = LINES.read_bytes().splitlines(keepends=True) if LINES.exists() else []
    others = [line for line in kept if msgspec.json.decode(line)["kind"] not in PARTS[part].kinds]
    lines = [*others, *[_line(result, machine) for result in results]]
    order = [kind for each in PARTS.values() for kind in each.kinds]
    LINES.write_bytes(b"".join(sorted(lines, key=lambda line: order.index(msgspec.json.decode(line)["kind"]))))
    write_summary(PAGE, read_results(LINES))
    write_part(PAGE, part, machine, results)


def read_results(path: Path) -> list[RoundResult]:
    """The results of all rounds on record."""
    types: dict[str, type[RoundResult]] = {kind: part.type for part in PARTS.values() for kind in part.kinds}
    return [
        msgspec.json.decode(line, type=types[msgspec.json.decode(line)["kind"]])
        for line in path.read_bytes().splitlines()
    ]


async def _run_all(part: str, kinds: list[str], options: argparse.Namespace) -> list[RoundResult]:
    results: list[RoundResult] = []
    for place, kind in enumerate(kinds):
        of = options.power if part == POWER else options.rounds or PARTS[part].rounds
        if part == "kills" and options.in_all is not None:
            of = options.in_all // len(kinds) + (place < options.in_all % len(kinds))
        async for result in PARTS[part].run(kind, range(options.seed, options.seed + of), options):
            results.append(result)
            _say(result, result.seed - options.seed + 1, of)
    return results


# -- the rounds of a kind, one for each seed --------------------------------------------------------------------------


async def _kill_rounds(kind: str, seeds: range, _: argparse.Namespace) -> AsyncIterator[KillResult]:
    with _directory_and_receiver() as (directory, receiver, journal):
        resources = await set_up(directory, receiver, journal)
        for seed in seeds:
            yield await kill_round(resources, plan_round(kind, seed))


async def _power_rounds(_kind: str, seeds: range, _: argparse.Namespace) -> AsyncIterator[PowerResult]:
    for seed in seeds:
        yield await power_round(seed)


async def _restart_rounds(kind: str, seeds: range, options: argparse.Namespace) -> AsyncIterator[RestartResult]:
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="cns-faults-") as scratch:
            yield await restart_round(kind, seed, options.kills, Path(scratch))


async def _cluster_rounds(kind: str, seeds: range, _: argparse.Namespace) -> AsyncIterator[ClusterResult]:
    """All on one cluster; an invalid round is followed by a new cluster, since its leftovers would spoil the next."""
    left = list(seeds)
    with ExitStack() as whole:
        ring = whole.enter_context(Ring()) if kind == NODE else None
        while left:
            with ExitStack() as stack:
                directory, receiver, journal = stack.enter_context(_directory_and_receiver())
                hurt = stack.enter_context(site(directory, ring, linked=kind in LINKED_KINDS))
                resources = hurt.resources(receiver, journal)
                valid = True
                while left and valid:
                    result = await cluster_round(hurt, resources, plan_cluster_round(kind, left.pop(0)))
                    valid = result.valid
                    yield result


@contextmanager
def _directory_and_receiver() -> Iterator[tuple[Path, str, Path]]:
    """A directory, and the URL and the journal of a receiver."""
    with tempfile.TemporaryDirectory(prefix="cns-faults-") as directory:
        journal = Path(directory, "arrivals")
        with running_receiver("--journal", str(journal)) as receiver:
            yield Path(directory), receiver, journal


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lab.faults.run", description="Kill and power-loss rounds.")
    parser.add_argument("--in-all", type=int, help="kill rounds, shared by their kinds; goes before --rounds")
    parser.add_argument("--rounds", type=int, help="of each kind but power [default: 50, 20 or 1]")
    parser.add_argument("--power", type=int, default=20, help="of power loss")
    parser.add_argument("--kills", type=int, default=KILLS, help="in each round of restarts")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; the next has the next")
    names = [*PARTS, *[kind for part in PARTS.values() for kind in part.kinds]]
    parser.add_argument("--only", choices=list(dict.fromkeys(names)))
    return parser.parse_args(words)


def _line(result: RoundResult, machine: Facts) -> bytes:
    return msgspec.json.encode({"commit": machine.commit, **msgspec.to_builtins(result)}) + b"\n"


def _say(result: RoundResult, done: int, of: int) -> None:
    members = msgspec.to_builtins(result)
    counts = [f"{name} {members[name]}" for name in members if members[name] and name not in SAID_APART]
    valid = "valid" if result.valid else "INVALID"
    print(f"{result.kind} {done}/{of}  seed {result.seed}  {valid}  {', '.join(counts)}", flush=True)
    for fault in result.faults[:FAULTS_PRINTED]:
        print(f"    {fault}", flush=True)
    if len(result.faults) > FAULTS_PRINTED:
        print(f"    and {len(result.faults) - FAULTS_PRINTED} more", flush=True)


class Part(NamedTuple):
    """A part of the report. A run that has all its kinds of rounds replaces its results."""

    kinds: tuple[str, ...]
    type: type[Any]
    rounds: int  # of each kind
    run: Callable[[str, range, argparse.Namespace], AsyncIterator[RoundResult]]


PARTS = {
    "kills": Part(tuple(VICTIMS), KillResult, 50, _kill_rounds),
    POWER: Part((POWER,), PowerResult, 20, _power_rounds),
    "restarts": Part(FORMS, RestartResult, 1, _restart_rounds),
    "cluster": Part(CLUSTER_KINDS, ClusterResult, 20, _cluster_rounds),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
