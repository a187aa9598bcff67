"""Keeps the key ring of an API process up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from cns_common.aws.auth.accounts import AccessKey, KeyRing
from cns_common.errors import CnsError

RETRY_S = 1.0
"""Until this long after a read that failed, a key that was revoked may be accepted."""
LEARN_INTERVAL_S = 1.0
"""Calls with unknown keys make a process read all keys at most this often."""
LEARNERS_MAX = 100
"""Calls with unknown keys that wait for such a read. Each may hold a body of the largest size; more are refused."""

log = structlog.get_logger(__name__)


class KeyRefresh:
    """Reads the access keys again after each `request`. Reads do not overlap, so that no older answer replaces a newer
    one; a request during a read causes another read."""

    def __init__(self, ring: KeyRing, read: Callable[[], Awaitable[list[AccessKey]]]) -> None:
        self._ring = ring
        self._read = read
        self._reading = asyncio.Lock()
        self._wanted = False
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None  # a read for unknown keys that has not begun
        self._next_from_s = 0.0
        self._learners = 0

    def close(self) -> None:
        """Read no more: the process leaves its store."""
        self._closed = True

    def request(self) -> None:
        if self._closed:
            return
        self._wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def learn(self) -> bool:
        """Wait for a read that begins after this call: the announcement of a new key may be late or lost. False if too
        many calls wait for one. Raises CnsError if it fails."""
        if self._learners >= LEARNERS_MAX:
            return False
        self._learners += 1
        try:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_task(self._learn())
                self._next.add_done_callback(_drop_error)
            await asyncio.shield(self._next)
        finally:
            self._learners -= 1
        return True

    async def _learn(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(max(0.0, self._next_from_s - loop.time()))
            await self._reading.acquire()
        finally:
            self._next = None
        try:
            self._ring.replace(await self._read())
        finally:
            self._next_from_s = loop.time() + LEARN_INTERVAL_S
            self._reading.release()

    async def _run(self) -> None:
        while self._wanted:
            self._wanted = False
            try:
                async with self._reading:
                    self._ring.replace(await self._read())
            except CnsError as error:  # the former keys stay valid
                log.warning("access_keys.reload_failed", error=str(error))
                asyncio.get_running_loop().call_later(RETRY_S, self.request)


def _drop_error(read: asyncio.Task[None]) -> None:
    """The callers that wait for a read may all have gone."""
    if not read.cancelled():
        read.exception()
