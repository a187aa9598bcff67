"""Notices that Cassandra answers nothing: it takes statements and hangs, or no connection is left.

A call to the API makes several statements, and each would wait for its whole time limit. So once a statement got no
answer within its limit, and no other did meanwhile, later ones are refused at once, until a probe is answered: a call
takes the limit of one statement, however many it makes. (A server that is only slow is left to the call's deadline.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from cns_common.errors import StoreUnavailable
from cns_common.task_cancellation import cancel_and_wait

PROBE_INTERVAL_S = 0.5

log = structlog.get_logger(__name__)

Probe = Callable[[], Awaitable[bool]]
"""Asks Cassandra for anything. False: nothing came, or there is no connection."""


class ResponseWatch:
    def __init__(self, probe: Probe, on_return: Callable[[], Awaitable[None]], loop: asyncio.AbstractEventLoop) -> None:
        """`on_return` uses Cassandra before the absence ends; it raises nothing."""
        self._probe = probe
        self._on_return = on_return
        self._loop = loop
        self._answered_s = loop.time()
        self._probing: asyncio.Task[None] | None = None
        self._is_silent = False

    @property
    def absence(self) -> asyncio.Future[None] | None:
        """None while Cassandra answers; else done when it does again."""
        return self._probing

    def check(self) -> None:
        """Raise StoreUnavailable while Cassandra is silent."""
        if self._is_silent:
            raise StoreUnavailable("Cassandra does not answer")

    def answered(self) -> None:
        """Note any answer, also an error that Cassandra itself sent."""
        self._answered_s = self._loop.time()

    def unanswered(self, sent_s: float) -> None:
        """Note that a statement sent at `sent_s` got no answer within its limit, or had no connection."""
        if self._probing is None and self._answered_s < sent_s:
            log.warning("cassandra.responses_stopped")
            self._is_silent = True
            self._probing = self._loop.create_task(self._probe_until_answered())

    async def close(self) -> None:
        if self._probing is not None:
            await cancel_and_wait([self._probing])

    async def _probe_until_answered(self) -> None:
        while not await self._probe():  # noqa: ASYNC110  # the probe asks a server, which sets no event
            await asyncio.sleep(PROBE_INTERVAL_S)
        self._is_silent = False
        try:
            await self._on_return()
        finally:
            self._probing = None
        log.info("cassandra.responses_resumed")
