"""The session's decisions on errors of Cassandra, asked as the driver asks."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
from cassandra.policies import RetryPolicy

from cns_common.cassandra.connection import IdempotentRetryPolicy

METHODS = ("on_read_timeout", "on_write_timeout", "on_unavailable", "on_request_error")


@pytest.mark.parametrize("method", METHODS)
def test_the_driver_can_pass_its_arguments_by_name(method: str) -> None:
    theirs, ours = (inspect.signature(getattr(one, method)) for one in (RetryPolicy, IdempotentRetryPolicy))
    assert [*ours.parameters] == [*theirs.parameters]


@pytest.mark.parametrize(
    ("idempotent", "decision"), [(True, RetryPolicy.RETRY_NEXT_HOST), (False, RetryPolicy.RETHROW)]
)
def test_too_few_replicas(idempotent: bool, decision: int) -> None:
    query = SimpleNamespace(is_idempotent=idempotent)
    found, _ = IdempotentRetryPolicy().on_unavailable(
        query, consistency=6, required_replicas=2, alive_replicas=1, retry_num=0
    )
    assert found == decision
