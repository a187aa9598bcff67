"""LocalStack's headers on a ReceiveMessage."""

from __future__ import annotations

import pytest

from cqs.localstack.options import read_overrides

COUNT = b"x-localstack-sqs-override-message-count"
WAIT = b"x-localstack-sqs-override-wait-time-seconds"


@pytest.mark.parametrize(
    ("headers", "overrides"),
    [
        ({}, {}),
        ({b"host": b"7"}, {}),
        ({COUNT: b"100"}, {"MaxNumberOfMessages": 100}),
        ({COUNT: b" 7 "}, {"MaxNumberOfMessages": 7}),
        ({WAIT: b"60"}, {"WaitTimeSeconds": 60}),
        ({COUNT: b"20", WAIT: b"30"}, {"MaxNumberOfMessages": 20, "WaitTimeSeconds": 30}),
        ({COUNT: b"0", WAIT: b"-1"}, {}),
        ({COUNT: b"", WAIT: b"many"}, {}),
        ({COUNT: "١".encode()}, {}),
        ({COUNT: b"9" * 5_000}, {}),
    ],
)
def test_read(headers: dict[bytes, bytes], overrides: dict[str, int]) -> None:
    assert read_overrides(headers) == overrides
