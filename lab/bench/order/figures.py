"""The paper's metrics of a run, from what its clients noted."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from cns_pipeline.transforms.audit.subsequence import IncreasingSubsequence
from lab.bench.order.workload import Load, QueueLog, RunRecord
from lab.measure.figures import NS_PER_MS, NS_PER_S

Row = dict[str, float]
"""Figures by name."""


def figures(load: Load, measured: RunRecord) -> Row:
    """Figures of all queues together. Messages that were sent twice by a sender are not the service's duplicates."""
    queues = measured.queues
    sent = sum(len(queue.acknowledged) for queue in queues)
    orders = [order_of(queue) for queue in queues]
    compared = max(sum(order.compared for order in orders), 1)
    return {
        "messages": sent,
        "send rate, 1/s": sent / _seconds(measured.send_span_ns),
        "receive+delete rate, 1/s": sum(len(queue.deleted) for queue in queues) / _seconds(measured.receive_span_ns),
        "send response, mean ms": fmean(measured.sends or [0]) / NS_PER_MS,
        "receive response, mean ms": fmean(measured.receives or [0]) / NS_PER_MS,
        "duplication rate λ": sum(duplicates(queue) for queue in queues) / max(sent, 1),
        "duplication by senders": sum(sender_duplicates(queue) for queue in queues) / max(sent, 1),
        "loss rate ε": (sum(lost(queue) for queue in queues) + measured.corrupt) / max(sent, 1),
        "out-of-order rate": sum(order.out_of_order for order in orders) / compared,
        "average displacement": sum(order.displacement_sum for order in orders) / compared,
        "largest displacement": max([order.displacement_max for order in orders], default=0),
        "dropped calls": measured.dropped,
        "receivers that quit": measured.quits,
        "failed calls": measured.errors,
        "kills": measured.kills,
        "backlog at the last send": measured.backlog,
        "drained after, s": (measured.receive_span_ns[1] - measured.send_span_ns[1]) / NS_PER_S,
    } | {"receivers a queue": load.receivers}


class Order:
    """The distance of a sequence of places, all different, from 0, 1, 2 and so on."""

    def __init__(self, places: Sequence[int]) -> None:
        right = {place: position for position, place in enumerate(sorted(places))}
        moved = [abs(right[place] - position) for position, place in enumerate(places)]
        longest = IncreasingSubsequence()
        longest.extend(places)
        self.compared = len(places)
        self.out_of_order = len(places) - len(longest)
        self.displacement_sum = sum(moved)
        self.displacement_max = max(moved, default=0)


def order_of(queue: QueueLog) -> Order:
    """By the first receive of each message."""
    place = {number: n for n, number in enumerate(queue.acknowledged)}
    return Order([place[number] for number in dict.fromkeys(queue.received) if number in place])


def duplicates(queue: QueueLog) -> int:
    """Receives beyond the first of each message id."""
    return len(queue.received) - sum(map(len, queue.ids.values()))


def sender_duplicates(queue: QueueLog) -> int:
    """Messages that their sender sent again, since it got no answer, and that came as well."""
    return sum(len(ids) - 1 for ids in queue.ids.values())


def lost(queue: QueueLog) -> int:
    return len(set(queue.acknowledged) - set(queue.ids))


def _seconds(span_ns: tuple[int, int]) -> float:
    return max(span_ns[1] - span_ns[0], 1) / NS_PER_S
