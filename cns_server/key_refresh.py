"""Keeps the key ring of an API process up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from cns_common.aws.auth.accounts import AccessKey, KeyRing
from cns_common.errors import CnsError

log = structlog.get_logger(__name__)


class KeyRefresh:
    """Reads the access keys again after each `request`. Reads do not overlap, so that no older answer replaces a newer
    one; a request during a read causes another read."""

    def __init__(self, ring: KeyRing, read: Callable[[], Awaitable[list[AccessKey]]]) -> None:
        self._ring = ring
        self._read = read
        self._wanted = False
        self._task: asyncio.Task[None] | None = None

    def request(self) -> None:
        self._wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._wanted:
            self._wanted = False
            try:
                self._ring.replace(await self._read())
            except CnsError as error:  # the former keys stay valid until caches expire, within 60 s
                log.warning("access_keys.reload_failed", error=str(error))
