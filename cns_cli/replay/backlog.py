"""Waits while the service has too many jobs, so that live messages do not wait behind archived ones."""

from __future__ import annotations

from cns.archives.replay_worker import QUEUE_DEPTH_MAX
from cns.queue_port.contract import QueuePort
from cns_cli.replay.model import ReplayStopped
from cns_cli.replay.pace import Sleep

POLL_INTERVAL_S = 1.0
POLLS_MAX = 60
"""The limit of polls in a row without fewer jobs: then no worker takes them, and the replay stops."""


class Backlog:
    def __init__(self, port: QueuePort, queue: str, sleep: Sleep, depth_max: int = QUEUE_DEPTH_MAX) -> None:
        self._port = port
        self._queue = queue
        self._sleep = sleep
        self._depth_max = depth_max

    async def wait(self) -> None:
        """Wait until the queue has capacity. Raises ReplayStopped if its jobs do not become fewer."""
        least = depth = await self._port.depth(self._queue)
        polls = 0
        while depth >= self._depth_max:
            if polls == POLLS_MAX:
                text = f"the service has {depth} jobs waiting, and they do not become fewer: is it running?"
                raise ReplayStopped(f"{text} Run the command again to continue")
            await self._sleep(POLL_INTERVAL_S)
            depth = await self._port.depth(self._queue)
            polls = 0 if depth < least else polls + 1
            least = min(least, depth)
