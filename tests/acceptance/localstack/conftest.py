"""A queue of the service in LocalStack's place, and the keys that its users have."""

from __future__ import annotations

from typing import Any

import pytest

from lab.harness.running import Up

ACCOUNT = "000000000000"
KEYS = {"key": "test", "secret": "test", "region_name": "us-east-1"}


@pytest.fixture
def sqs(stack: Up) -> Any:
    return stack.client("sqs", **KEYS)


@pytest.fixture
def queue(sqs: Any, new_name: Any) -> str:
    return str(sqs.create_queue(QueueName=new_name())["QueueUrl"])
