"""Counts of the checked traffic."""

from __future__ import annotations

import pytest

from lab.load.checked_traffic import MessageCheck
from lab.load.queues import BODY_BYTES


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
