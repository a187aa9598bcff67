"""A pytest plugin that makes some answers of stores late: it finds tests that hope for answers at once.

    PYTEST_ADDOPTS="-p tests.late" make test

One in eight statements to Cassandra and calls of the inline queue port begins late, and one in eight ends late, by up
to 100 ms. Services that a test starts as processes keep their speed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import pytest

from cns.queue_port.inline import InlineQueuePort
from cns_common.cassandra.session import Cassandra

SHARE = 8
LATE_S = 0.1
METHODS: tuple[tuple[type, str], ...] = (
    (Cassandra, "_run"),
    (InlineQueuePort, "enqueue"),
    (InlineQueuePort, "receive"),
    (InlineQueuePort, "settle"),
)

Given = ParamSpec("Given")
Result = TypeVar("Result")
_RANDOM = random.Random()  # tests seed the global one


def pytest_configure(config: pytest.Config) -> None:
    for owner, name in METHODS:
        method: Callable[..., Awaitable[Any]] = getattr(owner, name)
        setattr(owner, name, late(method))


def late(method: Callable[Given, Awaitable[Result]]) -> Callable[Given, Awaitable[Result]]:
    @wraps(method)
    async def call(*args: Given.args, **options: Given.kwargs) -> Result:
        await _sometimes()
        result = await method(*args, **options)
        await _sometimes()
        return result

    return call


async def _sometimes() -> None:
    if _RANDOM.randrange(SHARE) == 0:
        await asyncio.sleep(_RANDOM.random() * LATE_S)  # the delay itself: this is what the plugin is for
