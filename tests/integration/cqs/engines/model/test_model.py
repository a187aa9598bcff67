"""Random sequences of API calls: queues must behave as the model does.

`CNS_MODEL_EXAMPLES` sets the number of sequences per kind of queue; then they are different at each run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.drivers import CLUSTER
from tests.integration.cqs.engines.model.sqs_driven import Queue, Service
from tests.integration.cqs.engines.model.sqs_machine import Machine
from tests.integration.cqs.engines.model.sqs_model import VisibleQueue
from tests.marks import examples, extended

EXAMPLES = {"standard": 25, "fair": 15, "fifo": 60}
EXAMPLES_ON_CASSANDRA = 12
STEPS = 40
EXAMPLES_IN_GATE, STEPS_IN_GATE = 3, 15


@contextmanager
def _opened(directory: Path, *engine: str) -> Iterator[Service]:
    service = Service(directory, *engine)
    try:
        yield service
    finally:
        service.close()


def _kinds(engine: str) -> list[str]:
    can = CLUSTER[engine].capabilities
    return ["standard", *["fair"] * can.fair, *["fifo"] * can.fifo]


ON_CASSANDRA = [(engine, kind) for engine in CLUSTER for kind in _kinds(engine)]


def _run(service: Service, kind: str, n: int, steps: int = STEPS) -> None:
    chosen = os.environ.get("CNS_MODEL_EXAMPLES")
    run_state_machine_as_test(
        lambda: Machine(service, kind),  # type: ignore[arg-type]  # a factory is called as the class is
        settings=settings(
            max_examples=int(chosen or examples(n)),
            stateful_step_count=steps,
            deadline=None,
            phases=[Phase.explicit, Phase.generate, *([] if service.engine in CLUSTER else [Phase.shrink])],
            derandomize=chosen is None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("kind", EXAMPLES)
def test_queues_do_what_the_model_does(tmp_path: Path, kind: str) -> None:
    with _opened(tmp_path) as service:
        _run(service, kind, EXAMPLES[kind])


@pytest.mark.parametrize(("engine", "kind"), extended(*ON_CASSANDRA))
def test_queues_on_cassandra_do_what_the_model_does(tmp_path: Path, engine: str, kind: str) -> None:
    with _opened(tmp_path, engine) as service:
        _run(service, kind, EXAMPLES_ON_CASSANDRA)


@pytest.mark.extended
def test_commit_and_rollback_on_pipes(tmp_path: Path) -> None:
    """A message that is given back goes to the tail under its id; a deleted one is gone."""
    with _opened(tmp_path, "pipes") as service:
        queue = Queue(service, "q", VisibleQueue(fifo=False))
        sent = {body: queue("SendMessage", MessageBody=body)["MessageId"] for body in "abcd"}

        def receive(n: int = 1) -> list[dict[str, Any]]:
            messages: list[dict[str, Any]] = queue("ReceiveMessage", MaxNumberOfMessages=n)["Messages"]
            return messages

        (first,), (second,) = receive(), receive()
        assert (first["Body"], second["Body"]) == ("a", "b")
        service.sqs.clock.advance(1)
        queue("ChangeMessageVisibility", ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)
        queue("DeleteMessage", ReceiptHandle=second["ReceiptHandle"])
        left = receive(10)
        assert [message["Body"] for message in left] == ["c", "d", "a"]
        assert left[-1]["MessageId"] == sent["a"]


@pytest.mark.parametrize("engine", ["bdqs", "cassieq", "pipes"])
def test_short_sequences_on_each_engine(tmp_path: Path, engine: str) -> None:
    with _opened(tmp_path, engine) as service:
        _run(service, "standard", EXAMPLES_IN_GATE, STEPS_IN_GATE)
