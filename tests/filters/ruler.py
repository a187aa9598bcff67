"""AWS's open rule engine, in the program `tests/clients/ruler`: Amazon EventBridge matches by it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from itertools import product

from lab.harness.waiting import PATIENCE_S
from tests.clients.installing import installed
from tests.filters.naive import parsed, ways
from tests.filters.pair_generator import Case
from tests.filters.pools import written


def engine_answers(cases: Sequence[Case]) -> list[bool | str]:
    """For each case whether it matches, or the engine's error."""
    return _asked([(case.policy, case.body) for case in cases])


def engine_answers_singly(cases: Sequence[Case]) -> list[bool]:
    """Ask with one policy per combination of single conditions; any match counts. By the rules this is equivalent.

    The engine compiles all conditions of a key into one automaton, in which one sometimes hides another.
    """
    policies = [list(_single(case.policy)) for case in cases]
    pairs = [(policy, case.body) for case, singles in zip(cases, policies, strict=True) for policy in singles]
    answers = iter(_asked(pairs))
    return [True in [next(answers) for _ in singles] for singles in policies]


def _single(policy: str) -> Iterable[str]:
    for way in ways(parsed(policy)):
        for conditions in product(*(conditions for _, conditions in way)):
            yield written({path: [each] for (path, _), each in zip(way, conditions, strict=True)})


def _asked(pairs: Iterable[tuple[str, str]]) -> list[bool | str]:
    done = subprocess.run(
        installed("ruler"),
        input="".join(json.dumps({"policy": policy, "event": event}) + "\n" for policy, event in pairs),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return [{"true": True, "false": False}.get(line, line) for line in done.stdout.splitlines()]
