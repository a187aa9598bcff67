"""Random sequences of API calls: queues must behave as the model does.

`CNS_MODEL_EXAMPLES` sets the number of sequences per kind of queue; then they are different at each run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.integration.cqs.engines.sqs_driven import Service
from tests.integration.cqs.engines.sqs_machine import Machine

EXAMPLES = {"standard": 25, "fair": 15, "fifo": 60}
STEPS = 40


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = Service(tmp_path)
    yield opened
    opened.close()


# Threads of other tests' Cassandra sessions use `random`, which Hypothesis takes for the strategies' doing.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@pytest.mark.parametrize("kind", EXAMPLES)
def test_queues_do_what_the_model_does(service: Service, kind: str) -> None:
    chosen = os.environ.get("CNS_MODEL_EXAMPLES")
    run_state_machine_as_test(
        lambda: Machine(service, kind),  # type: ignore[arg-type]  # a factory is called as the class is
        settings=settings(
            max_examples=int(chosen or EXAMPLES[kind]),
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=chosen is None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
