"""boto3 with its defaults, and the record of its calls: which it repeated, and which it reports as failed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from faults.service.resources import RoundResources
from faults.service.wire import HOST

REGION = "us-east-1"
ERROR_SHOWN = 200


@dataclass(slots=True)
class Calls:
    made: Counter[str] = field(default_factory=Counter)  # by operation
    cut: Counter[str] = field(default_factory=Counter)  # attempts that failed, by error
    repeated: int = 0  # attempts
    done_before: int = 0  # refused repeats of attempts that were cut after they had their effect
    failed: list[tuple[int, str]] = field(default_factory=list)  # (time in ns, operation and error)


@dataclass(slots=True)
class Answer:
    members: dict[str, Any]
    unknown_outcomes: int  # attempts without an answer
    failed: bool = False


class Sdk:
    """Clients of one client thread. They are made here, in one thread: boto3's session is not safe for several."""

    def __init__(self, resources: RoundResources, calls: Calls, pool: ThreadPoolExecutor) -> None:
        key_id, secret = resources.credentials
        session = boto3.session.Session(key_id, secret, region_name=REGION)
        url = f"http://{HOST}:{resources.port}"
        self._clients = {name: session.client(name, endpoint_url=url) for name in ("sqs", "sns", "sts")}
        self._calls = calls
        self._pool = pool
        self._attempts = 0  # of the last call
        for name, client in self._clients.items():
            client.meta.events.register(f"needs-retry.{name}", self._note_attempt)

    async def call(self, service: str, operation: str, refusal: str = "", **members: object) -> Answer:
        """`refusal` is the error code of a repeat whose first attempt had its effect."""
        work = partial(self._call, service, operation, refusal, members)
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _call(self, service: str, operation: str, refusal: str, members: dict[str, object]) -> Answer:
        self._calls.made[operation] += 1
        client = self._clients[service]
        try:
            found = getattr(client, operation)(**members)
        except (BotoCoreError, ClientError) as error:
            code = error.response.get("Error", {}).get("Code") if isinstance(error, ClientError) else ""
            if self._attempts > 1 and code and code == refusal:
                self._calls.done_before += 1
                return Answer({}, self._attempts - 1)
            self._calls.failed.append((time.time_ns(), f"{operation}: {error!r}"[:ERROR_SHOWN]))
            return Answer({}, self._attempts, failed=True)
        return Answer(found, self._attempts - 1)

    def _note_attempt(self, response: Any, attempts: int, caught_exception: Exception | None, **_: object) -> None:
        self._attempts = attempts
        self._calls.repeated += attempts > 1
        if caught_exception is not None:
            inner = getattr(caught_exception, "kwargs", {}).get("error")
            self._calls.cut[f"{type(caught_exception).__name__}: {inner}"] += 1
        elif response is not None and response[0].status_code >= 500:
            self._calls.cut[f"HTTP {response[0].status_code}"] += 1
