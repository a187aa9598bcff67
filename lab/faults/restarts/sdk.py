"""boto3 with its defaults, and the record of its calls: which it repeated, and which it reports as failed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from lab.faults.service.wire import Answer
from lab.harness.processes import HOST
from lab.harness.signing import Credentials

ATTEMPTS_MAX = 3
"""The SDK's default."""
ERROR_SHOWN = 300


@dataclass(slots=True)
class Calls:
    made: Counter[str] = field(default_factory=Counter)  # by operation
    cut: Counter[str] = field(default_factory=Counter)  # attempts that failed, by what was done last and the error
    repeated: int = 0  # attempts
    done_before: int = 0  # refused repeats of attempts that were cut after they had their effect
    failed: list[tuple[int, str]] = field(default_factory=list)  # (time in ns, operation and errors)
    done_last: str = "nothing"


class Sdk:
    """boto3's clients of one client thread. Make all of them in one thread: that is not safe in several."""

    def __init__(self, port: int, credentials: Credentials, calls: Calls, pool: ThreadPoolExecutor) -> None:
        session = boto3.session.Session(credentials.key_id, credentials.secret, region_name=credentials.region)
        url = f"http://{HOST}:{port}"
        self._clients = {name: session.client(name, endpoint_url=url) for name in ("sqs", "sns", "sts")}
        self._calls = calls
        self._pool = pool
        self._errors: list[str] = []  # of the call in progress, one for each attempt that failed
        for name, client in self._clients.items():
            client.meta.events.register(f"needs-retry.{name}", self._note_attempt)

    @property
    def in_last_attempt(self) -> bool:
        """Whether a call is in progress that fails if it is cut once more."""
        return len(self._errors) >= ATTEMPTS_MAX - 1

    async def call(self, service: str, operation: str, members: Mapping[str, object], refusal: str = "") -> Answer:
        """`refusal` is the error code of a repeat whose first attempt had its effect."""
        work = partial(self._call, service, operation, members, refusal)
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _call(self, service: str, operation: str, members: Mapping[str, object], refusal: str) -> Answer:
        self._calls.made[operation] += 1
        try:
            found = getattr(self._clients[service], operation)(**members)
        except (BotoCoreError, ClientError) as error:
            code = error.response["Error"].get("Code") if isinstance(error, ClientError) else ""
            if self._errors and refusal and code == refusal:
                self._calls.done_before += 1
                return Answer({}, len(self._errors))
            text = f"{operation}: {' | '.join(self._errors)} | {error!r}"
            self._calls.failed.append((time.time_ns(), text[:ERROR_SHOWN]))
            return Answer({}, len(self._errors), failed=True)
        else:
            return Answer(found, len(self._errors))
        finally:
            self._errors = []

    def _note_attempt(self, response: Any, attempts: int, caught_exception: Exception | None, **_: object) -> None:
        """Count an attempt of any outcome. It returns nothing: the SDK decides whether to repeat it."""
        self._calls.repeated += attempts > 1
        if error := _error(response, caught_exception):
            self._errors.append(error)
            self._calls.cut[f"{self._calls.done_last}: {error}"] += 1


def _error(response: Any, exception: Exception | None) -> str:
    """Why an attempt may be repeated; '' if it got an answer."""
    if exception is not None:
        inner = getattr(getattr(exception, "kwargs", {}).get("error"), "args", ())
        return type([exception, *[each for each in inner if isinstance(each, Exception)]][-1]).__name__
    status = response[0].status_code
    return f"HTTP {status} ({response[1].get('Error', {}).get('Message')})" if status >= 500 else ""
