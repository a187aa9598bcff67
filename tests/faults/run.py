"""`make faults`: all rounds against the whole service and of power loss; the findings go into docs/reliability.md.

    python -m tests.faults.run [--rounds 50] [--power 20] [--seed 1] [--only api|worker|both|power]

A round that fails is repeated by its kind and seed: `--only worker --rounds 1 --seed 17`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from tests.faults.kills import VICTIMS, kill_round, plan_round
from tests.faults.power import power_round
from tests.faults.report import Facts, facts, write_report
from tests.faults.results import KillResult, PowerResult
from tests.faults.scene import set_up
from tests.faults.site import ROOT, free_port, receiving

LINES = ROOT / "docs" / "reliability.jsonl"
PAGE = ROOT / "docs" / "reliability.md"
KINDS = (*VICTIMS, "power")
FAULTS_PRINTED = 10

Result = KillResult | PowerResult


def main(words: list[str]) -> int:
    options = _options(words)
    kinds = [options.only] if options.only else list(KINDS)
    machine = facts(f"python -m tests.faults.run {' '.join(words)}".strip())
    results = asyncio.run(_run_all(kinds, options, lambda result, done, of: _say(result, done, of)))
    if len(kinds) == len(KINDS):  # part of the evidence must not replace all of it
        LINES.write_bytes(b"".join(_line(result, machine) for result in results))
        write_report(PAGE, machine, results)
    invalid = [result for result in results if not result.valid]
    print(f"{len(results)} rounds at {machine.commit}, {len(invalid)} invalid")
    return 1 if invalid else 0


async def _run_all(
    kinds: list[str], options: argparse.Namespace, say: Callable[[Result, int, int], None]
) -> list[Result]:
    results: list[Result] = []
    rounds = {kind: options.power if kind == "power" else options.rounds for kind in kinds}
    for kind, of in rounds.items():
        number = 0
        async for result in _rounds(kind, of, options.seed):
            number += 1
            say(result, number, of)
            results.append(result)
    return results


async def _rounds(kind: str, rounds: int, seed: int) -> AsyncIterator[Result]:
    if kind == "power":
        for number in range(rounds):
            yield await power_round(seed + number)
        return
    with tempfile.TemporaryDirectory(prefix="cns-faults-") as scratch:
        directory, receiver_port = Path(scratch), free_port()
        journal = directory / "arrivals"
        with receiving(receiver_port, journal):
            scene = await set_up(directory, free_port(), receiver_port, journal)
            for number in range(rounds):
                yield await kill_round(scene, plan_round(kind, seed + number))


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.faults.run", description="Kill and power-loss rounds.")
    parser.add_argument("--rounds", type=int, default=50, help="of each: API, worker, both")
    parser.add_argument("--power", type=int, default=20, help="of power loss")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; the next has the next")
    parser.add_argument("--only", choices=KINDS)
    return parser.parse_args(words)


def _line(result: Result, machine: Facts) -> bytes:
    return msgspec.json.encode({"commit": machine.commit, **msgspec.to_builtins(result)}) + b"\n"


def _say(result: Result, done: int, of: int) -> None:
    what = f"{result.kind} {done}/{of}  seed {result.seed}  {'valid' if result.valid else 'INVALID'}"
    if isinstance(result, KillResult):
        counts = f"{result.place}  {result.messages} messages  {result.notifications} notifications"
        print(f"{what}  {counts}  {result.seconds} s", flush=True)
    else:
        print(f"{what}  {sum(result.cuts.values())} cuts  {result.acknowledged} calls  {result.seconds} s", flush=True)
    for fault in result.faults[:FAULTS_PRINTED]:
        print(f"    {fault}", flush=True)
    if len(result.faults) > FAULTS_PRINTED:
        print(f"    and {len(result.faults) - FAULTS_PRINTED} more", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
