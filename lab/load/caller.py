"""One client of several API processes: a call that fails goes to the next process, as with a list of addresses."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

import msgspec

from lab.harness.signing import Credentials, Signer
from lab.load.wire import Lane, LoadError, connect

ANSWER_S = 30.0
RETRY_S = 0.05
REFUSED = "HTTP/1.1 4"
"""The beginning of a failure's text that a repetition would not mend."""
TRIES_MAX = 1_200


@dataclass(slots=True)
class Caller:
    """One connection at a time. `place` says at which of the ports it starts."""

    ports: list[int]
    credentials: Credentials
    account: str = ""
    drop_probability: float = 0
    place: int = 0
    random: Random = field(default_factory=Random)
    dropped: int = 0
    errors: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """Failed calls by the error's text."""
    refused: bool = False
    _lane: Lane | None = None
    _signers: dict[int, Signer] = field(default_factory=dict)

    def another(self, place: int, random: Random) -> Self:
        return type(self)(self.ports, self.credentials, self.account, self.drop_probability, place, random)

    async def ask(self, operation: str, **members: object) -> dict[str, Any]:
        """A call without dropped answers, repeated until it succeeds."""
        for _ in range(TRIES_MAX):
            answer = await self._try(operation, members)
            if answer is not None:
                return answer
        raise LoadError(f"{operation} failed {TRIES_MAX} times")

    async def call(self, operation: str, queue: str, **members: object) -> dict[str, Any] | None:
        """One try. None if it failed, or if the call or its answer was dropped, or if a handle is refused."""
        members = {"QueueUrl": f"http://127.0.0.1/{self.account}/{queue}", **members}
        self.refused = False
        drops = self.random.random() < self.drop_probability
        self.dropped += drops
        if drops and self.random.random() < 0.5:
            return None  # it never reached the service
        answer = await self._try(operation, members)
        return None if drops else answer

    def close(self) -> None:
        if self._lane is not None:
            self._lane.close()
        self._lane = None

    async def _try(self, operation: str, members: dict[str, Any]) -> dict[str, Any] | None:
        self.refused = False
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._ask(self.ports[self.place % len(self.ports)], operation, members)
        except (LoadError, OSError) as error:  # a timeout is an OSError
            self.refused = str(error).startswith(REFUSED)
            if not self.refused:
                self.errors += 1
                self.failures[_text(error)] += 1
            self.close()
            if self.refused and operation != "DeleteMessage":
                raise
            if not self.refused:
                self.place += 1
                await asyncio.sleep(RETRY_S)
            return None

    async def _ask(self, port: int, operation: str, members: dict[str, Any]) -> dict[str, Any]:
        """The answer. Raises LoadError, of which a refusal begins with `REFUSED`, or OSError."""
        if self._lane is None or self._lane.closed:
            (self._lane,) = await connect(port, 1)
        request = self._signer(port).call(operation, msgspec.json.encode(members))
        answer: dict[str, Any] = msgspec.json.decode(await self._lane.ask(request) or b"{}")
        return answer

    def _signer(self, port: int) -> Signer:
        return self._signers.setdefault(port, Signer(self.credentials, "sqs", f"127.0.0.1:{port}"))


def _text(error: Exception) -> str:
    """The last line of an answer, or the error."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1][:200]
