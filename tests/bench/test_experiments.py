"""The tools of the experiments: how they count messages out of order, repeated and lost, and that faults reach the
service."""

from __future__ import annotations

import pytest

from lab.bench.engines.partitions import Partition, load_of_nodes
from lab.bench.order.figures import Order, duplicates, figures, lost, order_of, sender_duplicates
from lab.bench.order.workload import Load, QueueLog, RunRecord
from lab.experiments.report import FAILS, HOLDS, claim


@pytest.mark.parametrize(
    ("received", "out_of_order", "displacement"), [([2, 1, 3, 4, 5], 1, 2), ([2, 3, 4, 5, 1], 1, 8), ([7, 9], 0, 0)]
)
def test_order_of_the_papers_examples(received: list[int], out_of_order: int, displacement: int) -> None:
    order = Order(received)
    assert (order.out_of_order, order.displacement_sum, order.compared) == (out_of_order, displacement, len(received))


def test_what_came_twice_and_what_was_sent_twice_are_told_apart() -> None:
    queue = QueueLog(
        "q",
        acknowledged=[10, 11, 12, 13],
        received=[11, 10, 10, 12, 12],  # 10: the same message again; 12: two messages of one send
        ids={10: {"a"}, 11: {"b"}, 12: {"c", "d"}},
        deleted={10, 11, 12},
    )
    assert (duplicates(queue), sender_duplicates(queue), lost(queue)) == (1, 1, 1)
    assert (order_of(queue).compared, order_of(queue).out_of_order) == (3, 1)


def test_a_corrupt_message_counts_as_lost() -> None:
    queue = QueueLog("q", acknowledged=[1], received=[1], ids={1: {"a"}})
    assert figures(Load(), RunRecord([queue], corrupt=1))["loss rate ε"] == 1


def test_a_partition_is_on_as_many_nodes_as_it_has_copies() -> None:
    lowest, highest = -(2**63), 2**63 - 1
    assert load_of_nodes([Partition(lowest, 5)], nodes=8, copies=3) == {0: 5, 1: 5, 2: 5}
    assert load_of_nodes([Partition(highest, 2)], nodes=8, copies=3) == {7: 2, 0: 2, 1: 2}


def test_verdicts() -> None:
    assert [claim("Q1", "", "", holds=holds).verdict for holds in (True, False)] == [HOLDS, FAILS]
