"""Deduplication keys that power rounds expect after a purge and a cut."""

from __future__ import annotations

import pytest

from lab.faults.power.expectation import expect
from lab.faults.power.journal import PURGED_FIFO, Journal, SentMessage, StoreCall

CUT = 100
"""The last position of the disk's log."""


def send(number: int, began: int, answered: int | None) -> StoreCall:
    put = SentMessage(queue=PURGED_FIFO, id=f"m{number}", body=b"", group="g", dedup="key")
    return StoreCall(began=began, answered=answered, puts=(put,), sequences=(number,), originals=(put.id,))


def purge(began: int, answered: int | None) -> StoreCall:
    return StoreCall(began=began, answered=answered, purges=PURGED_FIFO)


@pytest.mark.parametrize(
    ("calls", "known", "forgotten"),
    [
        ([send(1, 0, 1)], "m1", ""),
        ([send(1, 0, 1), purge(2, 3)], "", "m1"),
        ([send(1, 0, 1), purge(2, 3), send(2, 4, 5)], "m2", ""),
        ([send(1, 0, 1), purge(2, None)], "", ""),  # the purge has no answer: it may or may not have been done
        ([send(1, 0, 1), purge(2, CUT + 1)], "", ""),  # the purge was answered after the cut
        ([send(1, 0, 3), purge(2, 4)], "", ""),  # at the same time
        ([send(1, 0, 1), purge(2, 3), send(2, 4, CUT + 1)], "", ""),
    ],
)
def test_keys_of_a_purged_queue(calls: list[StoreCall], known: str, forgotten: str) -> None:
    found = expect(Journal(calls), CUT)
    assert [put.id for put in found.dedup.values()] == [known] * bool(known)
    assert [put.id for put in found.forgotten.values()] == [forgotten] * bool(forgotten)
