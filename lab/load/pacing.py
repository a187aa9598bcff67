"""An open loop of calls: each begins at its planned time, even if earlier calls stall, so that a stall counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter_ns

from lab.load.wire import Lane
from lab.measure.figures import NS_PER_S


def planned_ns(per_s: float, seconds: float) -> list[int]:
    """Evenly spaced times, relative to the start."""
    return [int(number * NS_PER_S / per_s) for number in range(int(per_s * seconds))]


class Schedule:
    """Planned times of calls; `late_ns` has the delay of the loop's own timers for each call."""

    def __init__(self, offsets_ns: Sequence[int]) -> None:
        self._offsets_ns = offsets_ns
        self._began_ns = 0
        self.late_ns: list[int] = []

    def __len__(self) -> int:
        return len(self._offsets_ns)

    def due_ns(self, number: int) -> int:
        return self._began_ns + self._offsets_ns[number]

    def begun_ns(self, number: int) -> int:
        """When the call was ready for a connection: the loop's own delay is no part of its time."""
        return self.due_ns(number) + self.late_ns[number]

    async def run(
        self, lanes: Sequence[Lane], request: Callable[[int], bytes], answered: Callable[[int, bytes], None]
    ) -> None:
        """Make all calls. A call waits while no connection is free, and the wait is part of its time."""
        free: asyncio.Queue[Lane] = asyncio.Queue()
        for lane in lanes:
            free.put_nowait(lane)

        async def call(number: int) -> None:
            lane = await free.get()
            answered(number, await lane.ask(request(number)))
            free.put_nowait(lane)

        async with asyncio.TaskGroup() as calls:
            self._began_ns = perf_counter_ns()
            for number in range(len(self)):
                await _until(self.due_ns(number))
                self.late_ns.append(max(perf_counter_ns() - self.due_ns(number), 0))
                calls.create_task(call(number))


async def _until(at_ns: int) -> None:
    """The loop's timers round up to a millisecond."""
    left_ns = at_ns - perf_counter_ns()
    if left_ns > 0:
        await asyncio.sleep(left_ns / NS_PER_S)
