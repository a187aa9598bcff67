"""`cqs.engines.cluster.fifo.order`: pages of a queue's messages."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cqs.engines.cluster.fifo.order import MessageOrder, QueuedMessage

NOW_MS = 1_000
PAGE = 10


class CountedLooks(dict[int, QueuedMessage]):
    """Messages that count how often one is looked at."""

    looks = 0

    def get(self, key: int, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)

    def __getitem__(self, key: int) -> QueuedMessage:
        self.looks += 1
        return super().__getitem__(key)

    def values(self) -> Any:
        self.looks += len(self)
        return super().values()


def _message(seq: int, group: str, visible_at_ms: int = NOW_MS) -> QueuedMessage:
    return QueuedMessage(seq, str(seq), "", group, NOW_MS, visible_at_ms, 0, 0)


def _listed(order: MessageOrder, n: int) -> tuple[list[int], list[int]]:
    """All heads and all other messages, page by page."""
    heads: list[int] = []
    after = (-1, -1)
    while page := order.heads(after, n):
        heads += [message.seq for message in page]
        after = page[-1].visible_at_ms, page[-1].seq
    behind: list[int] = []
    while others := order.behind_heads(behind[-1] if behind else -1, n):
        behind += [message.seq for message in others]
    return heads, behind


@pytest.mark.parametrize("seed", range(20))
def test_pages_have_every_message_once_in_order(seed: int) -> None:
    random = Random(seed)
    order = MessageOrder()
    seq, step_max = 0, random.choice([1, 3, 100])
    for _ in range(random.choice([1, 50, 300])):
        seq += random.randint(1, step_max)
        order.add(_message(seq, f"g{random.randrange(20)}"), NOW_MS)
        known = list(order.messages.values())
        if random.random() < 0.3:
            order.reschedule(random.choice(known), NOW_MS + random.randrange(50), NOW_MS)
        if random.random() < 0.3:
            order.remove(random.choice(known))
    heads: dict[str, QueuedMessage] = {}
    for message in order.messages.values():
        heads.setdefault(message.group, message)
    by_due = sorted(heads.values(), key=lambda message: (message.visible_at_ms, message.seq))
    others = [seq for seq, message in order.messages.items() if heads[message.group].seq != seq]
    for n in (1, 7, 1_000):
        assert _listed(order, n) == ([message.seq for message in by_due], others)


@pytest.mark.parametrize("groups", [1, 5_000, 10_000])
def test_a_page_costs_its_size(groups: int) -> None:
    order = MessageOrder([_message(seq, f"g{seq % groups}") for seq in range(1, 10_001)], NOW_MS)
    order.messages = counted = CountedLooks(order.messages)
    assert len(order.heads((-1, -1), PAGE)) == min(PAGE, groups)
    order.behind_heads(9_000, PAGE)
    assert counted.looks < (100 if groups < 10_000 else 1_100)  # in a group of its own, no message waits behind another
