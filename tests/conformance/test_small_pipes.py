"""Random sequences of calls over many small pipes: the queue must behave as the model does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from cns_common.clock import Clock
from tests.conformance.drivers import Driver
from tests.conformance.test_model import Machine, OpenEngine

pytestmark = pytest.mark.extended

EXAMPLES = 10
STEPS = 40
OPTIONS = [{"PipeSize": "2", "MaxPopWidth": "1000"}, {"PipeSize": "3", "StrictFifo": "locked"}]


@pytest.mark.parametrize("options", OPTIONS, ids=["owned", "locked"])
def test_small_pipes_do_what_the_model_does(tmp_path: Path, options: dict[str, str]) -> None:
    with asyncio.Runner() as runner:
        opened = OpenEngine(runner, Driver("pipes", tmp_path, Clock()))

        def machine() -> Machine:
            made = Machine(opened, fifo=False, max_receives=3)
            made.queue.q = replace(made.queue.q, options=tuple(options.items()))
            return made

        try:
            run_state_machine_as_test(
                machine,  # type: ignore[arg-type]  # a factory is called as the class is
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=STEPS,
                    deadline=None,
                    phases=[Phase.explicit, Phase.generate],
                    derandomize=True,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            opened.close()
