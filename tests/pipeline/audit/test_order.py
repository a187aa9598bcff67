"""Order: the paper's worked examples, and pairs of several chunks against quadratic search."""

from __future__ import annotations

from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cns_common.events.audit_events import MessageReceived, MessageSent
from cns_pipeline.transforms.audit import order as order_module
from cns_pipeline.transforms.audit.figures import pair_figures
from cns_pipeline.transforms.audit.messages import messages
from cns_pipeline.transforms.audit.order import order
from tests.pipeline.audit.frames import frame_of
from tests.pipeline.audit.oracle import measure
from tests.pipeline.audit.random_logs import Line

EXAMPLES = {
    "the paper's first": ((2, 1, 3, 4, 5), 0.2, 0.4),
    "the paper's second": ((2, 3, 4, 5, 1), 0.2, 1.6),
    "in order": ((1, 2, 3, 4, 5), 0.0, 0.0),
    "reversed": ((4, 3, 2, 1), 0.75, 2.0),
    "two swaps": ((2, 1, 3, 5, 4), 0.4, 0.8),
    "one message": ((7,), 0.0, 0.0),
    "lost ones leave no hole": ((20, 40, 30), 1 / 3, 2 / 3),
    "a duplicate counts at its first receive": ((2, 1, 2, 3, 4, 5, 1), 0.2, 0.4),
}


def log(queue: str, received: tuple[int, ...]) -> list[Line]:
    """Messages sent by one process in the order of their numbers, and received by another as given."""
    sends = [
        Line("s", number, MessageSent(at_ms=1, queue=queue, message_id=f"{number}", size_bytes=1))
        for number in sorted(set(received))
    ]
    receives = [
        Line(
            "r",
            place,
            MessageReceived(
                at_ms=1,
                queue=queue,
                message_id=f"{number}",
                receive_count=received[:place].count(number),
                checksum="",
            ),
        )
        for place, number in enumerate(received, 1)
    ]
    return [*sends, *receives]


@pytest.mark.slice
def test_worked_examples(spark: SparkSession) -> None:
    lines = [line for name, (received, _, _) in EXAMPLES.items() for line in log(name, received)]
    rows = pair_figures(order(messages(frame_of(spark, lines)))).collect()
    found = {row["queue"]: (row["out_of_order_rate"], row["average_displacement"]) for row in rows}
    assert found == {name: pytest.approx(rates) for name, (_, *rates) in EXAMPLES.items()}


def test_chunks_of_a_pair_are_put_together_in_order(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "CHUNK", 7)
    random = Random(9)
    received = {f"q{n}": tuple(random.sample(range(1, 200), 150)) for n in range(3)}
    lines = [line for queue, numbers in received.items() for line in log(queue, numbers)]
    rows = order(messages(frame_of(spark, lines)).withColumn("shuffled", F.rand(1))).collect()
    found = {row["queue"]: (row["compared"], row["out_of_order"], row["displacement_sum"]) for row in rows}
    assert found == {queue: measure(numbers) for queue, numbers in received.items()}
