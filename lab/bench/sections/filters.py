"""The cost of finding ten subscriptions among many by their filter policies, in evaluations of one policy.

    python -m lab.bench.sections.filters [number of subscriptions ...]      (10,000 and 100,000)

By count, and by time: of one search, over that of one evaluation of a policy of the mix (`own`), and of a typical one
that has three keys. A row that breaks the bar (20 at 10,000 subscriptions, 40 above that) by count, or by time in both
units, is marked, and the exit status is 1.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from time import perf_counter_ns

import msgspec

from cns.filters.evaluation import matches
from cns.filters.index import FilterIndex
from cns.filters.message_values import MessageValues, attribute_values
from cns.filters.model import Filter, Scope
from cns.filters.parser import compile_stored
from lab.load.filter_mixes import MATCHING, MIXES, Mix

SIZES = (10_000, 100_000)
EVALUATIONS_MAX = 20
GROWTH_MAX = 2
ROUND = 5
ROUNDS = 1_000
"""Rounds of which the best counts: in the others, other processes used the CPU."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    mix: str
    subscriptions: int
    found: int
    evaluations: int
    search_us: float
    own_us: float
    typical_us: float
    put_us: float  # parsing of the policy included

    @property
    def passes(self) -> bool:
        allowed = EVALUATIONS_MAX * (1 if self.subscriptions <= SIZES[0] else GROWTH_MAX)
        ratio = self.search_us / max(self.own_us, self.typical_us)
        return self.found == MATCHING and max(self.evaluations, ratio) <= allowed


def cost(mix: Mix, n: int) -> Cost:
    index, values = FilterIndex(), mix.message_values()
    began_ns = perf_counter_ns()
    for number, policy in enumerate(mix.policies(range(n))):
        index.put(f"{number:08}", "sqs", policy)
    put_us = (perf_counter_ns() - began_ns) / 1000 / n
    found = index.find(mix.scope, values)
    matching = [policy for policy in mix.policies(range(20 * MATCHING)) if matches(policy, values)]
    evaluations = index.evaluations
    typical, met = _typical()
    search_us, own_us, typical_us = _best_us(
        lambda: index.find(mix.scope, values),
        lambda: [matches(policy, values) for policy in matching],
        lambda: matches(typical, met),
    )
    return Cost(
        mix=mix.name,
        subscriptions=n,
        found=len(found),
        evaluations=evaluations,
        search_us=search_us,
        own_us=own_us / len(matching),
        typical_us=typical_us,
        put_us=put_us,
    )


def _typical() -> tuple[Filter, MessageValues]:
    policy = {"store": ["s16", "s17"], "total": [{"numeric": [">=", 100]}], "kind": [{"anything-but": ["draft"]}]}
    values = attribute_values({"store": ("String", "s17"), "total": ("Number", "120"), "kind": ("String", "sale")})
    assert values is not None
    return compile_stored(json.dumps(policy), Scope.ATTRIBUTES), values


def _best_us(*actions: Callable[[], object]) -> list[float]:
    """The best time of each function, measured alternating."""
    best_ns = [sys.maxsize] * len(actions)
    for _ in range(ROUNDS):
        for place, action in enumerate(actions):
            began_ns = perf_counter_ns()
            for _ in range(ROUND):
                action()
            best_ns[place] = min(best_ns[place], perf_counter_ns() - began_ns)
    return [ns / 1000 / ROUND for ns in best_ns]


def main(sizes: tuple[int, ...]) -> int:
    print(f"{'mix':30} {'subs':>7} {'found':>5} {'evals':>5} {'search µs':>9} {'own':>6} {'typical':>7} {'put µs':>6}")
    passed = True
    for mix in MIXES:
        for n in sizes:
            row = cost(mix, n)
            gc.collect()
            passed &= row.passes
            print(
                f"{row.mix:30} {n:7} {row.found:5} {row.evaluations:5} {row.search_us:9.1f}"
                f" {row.search_us / row.own_us:6.1f} {row.search_us / row.typical_us:7.1f} {row.put_us:6.0f}"
                f"{'' if row.passes else '  <- over the bar'}",
                flush=True,
            )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(tuple([int(size) for size in sys.argv[1:]]) or SIZES))
