"""No two processes do what different epochs allow, however late statements and answers are. Clocks may be set, and
machines suspended, but no clock is set back to hide a suspension."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cns_common.cluster import view
from tests.unit.cluster.simulated_group import MS, Partition, Process

PROCESSES = 3
ROUNDS = 60
"""As many steps as a process takes to follow a decision."""
_process = st.integers(0, PROCESSES - 1)
ACTIONS = st.one_of(
    st.tuples(st.just("step"), _process, st.integers(1, 12)),
    st.tuples(st.just("rounds"), st.integers(0, PROCESSES), st.just(0)),
    st.tuples(st.just("rounds"), st.integers(0, PROCESSES), st.just(0)),
    st.tuples(st.just("propose"), _process, st.just(0)),
    st.tuples(st.just("see"), st.integers(1, PROCESSES), st.just(0)),
    st.tuples(st.just("pass"), _process, st.sampled_from([200, 1_500, 3_900, 6_100])),
)
SUSPENDED = st.tuples(st.just("suspend"), _process, st.sampled_from([500, 4_000, 40_000]))
SET = st.tuples(st.just("set"), _process, st.sampled_from([-60_000, -3_000, 3_000, 60_000]))

ALL = ("rounds", PROCESSES, 0)
SEE = ("see", PROCESSES, 0)
BEGIN = [("propose", 0, 0), ALL, SEE, ALL, ALL]
"""All processes act by the first epoch."""


@pytest.fixture(autouse=True)
def _no_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "RENEW_TIMEOUT_S", None)


class Simulation:
    def __init__(self) -> None:
        self.partition = Partition()
        self.processes = [Process(f"p{number}", self.partition) for number in range(PROCESSES)]

    def pass_ms(self, by_ms: int, suspended: Process | None = None) -> None:
        self.partition.now_ms += by_ms
        for one in self.processes:
            if one is suspended:
                one.machine.step(by_ms * MS)
            else:
                one.machine.run(by_ms * MS)

    async def do(self, action: str, number: int, by_ms: int) -> None:
        process = self.processes[number % PROCESSES]
        match action:
            case "step":
                await _steps([process], by_ms)
            case "rounds":
                await _steps(self.processes[:number] + self.processes[number + 1 :], ROUNDS)
            case "propose":
                process.proposes = True
            case "see":
                self.partition.show_to([one.view.process for one in self.processes[:number]])
            case "pass":
                self.pass_ms(by_ms)
            case "suspend":
                self.pass_ms(by_ms, process)
            case "set":
                process.machine.step(by_ms * MS)

    def epochs_acted_by(self) -> set[int]:
        return {one.opened for one in self.processes if one.acts}

    async def close(self) -> None:
        for one in self.processes:
            await one.close()


async def _steps(processes: Sequence[Process], times: int) -> None:
    for _ in range(times):
        for process in processes:
            await process.step()


async def _run(actions: list[tuple[str, int, int]]) -> int:
    """Returns how many epochs were acted by."""
    simulation, epochs = Simulation(), set[int]()
    try:
        for action in actions:
            await simulation.do(*action)
            acted_by = simulation.epochs_acted_by()
            assert len(acted_by) <= 1, acted_by
            epochs |= acted_by
    finally:
        await simulation.close()
    return len(epochs)


OTHERS = ("rounds", 2, 0)
SWITCH = [("pass", 2, 6_100), OTHERS, ("propose", 0, 0), OTHERS, ("see", 2, 0), OTHERS, OTHERS]
"""The third process is silent until its row has expired, and the others act by the next epoch."""


@example(SWITCH)
@example([*SWITCH, ("step", 2, 12)])
@example([("pass", 2, 6_100), ("set", 2, -3_000), *SWITCH[1:]])
@example([("suspend", 2, 40_000), *SWITCH[1:]])
@settings(max_examples=200)
@given(st.lists(ACTIONS | SUSPENDED, max_size=60) | st.lists(ACTIONS | SET, max_size=60))
def test_no_two_epochs_are_acted_by_at_once(actions: list[tuple[str, int, int]]) -> None:
    assert asyncio.run(_run([*BEGIN, *actions])) >= 1


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_row_that_is_written_too_late_is_confirmed(steps: int) -> None:
    """The process was certain when it began to write. Its row expires meanwhile, and the others go on."""
    late = [("pass", 2, 3_900), OTHERS, ("step", 2, steps), ("pass", 2, 2_300), *SWITCH[1:], ("step", 2, 12)]
    assert asyncio.run(_run([*BEGIN, *late])) == 2


def test_the_simulation_comes_to_act() -> None:
    """And goes on to the next epoch, without the process that is suspended."""
    away = [("suspend", 2, 40_000), ("propose", 1, 0), ALL, SEE, ALL, ALL]
    assert asyncio.run(_run([*BEGIN, *away])) == 2
