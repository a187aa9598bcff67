"""Counts of the checked traffic, and the causes of slow calls."""

from __future__ import annotations

import pytest

from lab.load.checked_traffic import MessageCheck
from lab.load.queues import BODY_BYTES
from lab.measure.stalls import NS_PER_S, Stall, StallLog


def answer(*bodies: str) -> bytes:
    messages = ",".join(f'{{"Body": "{body}", "ReceiptHandle": "h{body[:10]}"}}' for body in bodies)
    return f'{{"Messages": [{messages}]}}'.encode()


def test_lost_and_repeated_messages_are_counted() -> None:
    check = MessageCheck()
    first, second, third = check.body(), check.body(), check.body()
    assert {len(first), len(second), len(third)} == {BODY_BYTES}
    assert check.receive(answer(first, third)) == [b"h0000000000", b"h0000000002"]
    assert check.receive(answer(third)) == [b"h0000000002"]
    assert check.receive(b"{}") == []
    assert (check.sent, check.distinct, check.missing, check.repeated) == (3, 2, 1, 1)


def test_a_message_that_was_never_sent_is_an_error() -> None:
    check = MessageCheck()
    with pytest.raises(IndexError):
        check.receive(answer("0000000000"))


@pytest.mark.parametrize(
    ("stalls", "cause"),
    [
        ([], "no part stalled"),
        ([("Redis", 0.0, 0.9)], "no part stalled"),  # the stall ended before the call
        ([("Cassandra", 1.1, 0.8), ("api-1", 1.0, 1.0), ("Redis", 1.0, 0.1)], "api-1 1.00 s, Cassandra 0.80 s"),
        ([("Cassandra", 0.5, 9.0)], "Cassandra 9.00 s"),
    ],
)
def test_the_cause_is_the_part_that_stalled_with_the_call(stalls: list[tuple[str, float, float]], cause: str) -> None:
    log = StallLog([Stall(part, int(at * NS_PER_S), int(took * NS_PER_S)) for part, at, took in stalls])
    assert log.cause(NS_PER_S, NS_PER_S) == cause
