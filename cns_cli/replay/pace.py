"""The rate limit of a replay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cns_cli.replay.model import PAGE_MESSAGES

Sleep = Callable[[float], Awaitable[None]]


class Pace:
    """Delays pages so that on average at most `per_s` messages a second are sent; 0: no delay."""

    def __init__(self, per_s: float, now_s: Callable[[], float], sleep: Sleep) -> None:
        self._per_s = per_s
        self._now_s = now_s
        self._sleep = sleep
        self._free_at_s = now_s()

    @property
    def page_messages(self) -> int:
        """The number of messages to send at once: at a low rate those of one second."""
        return PAGE_MESSAGES if not self._per_s else min(PAGE_MESSAGES, max(1, int(self._per_s)))

    async def wait(self, messages: int) -> None:
        """Wait until this many messages may be sent, and count them as sent."""
        if not self._per_s or not messages:
            return
        wait_s = self._free_at_s - self._now_s()
        if wait_s > 0:
            await self._sleep(wait_s)
        self._free_at_s = max(self._free_at_s, self._now_s()) + messages / self._per_s
