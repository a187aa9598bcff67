"""A Redis for one test, which may be killed and paused."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import redis

from lab.harness.parts import need
from lab.harness.ports import free_port
from lab.harness.processes import HOST, Process, plain_environment


class OwnRedis(Process):
    """`options` are words of `redis-server`'s command line."""

    def __init__(self, directory: Path, options: tuple[str, ...] = ()) -> None:
        port = free_port()
        settings = {"port": port, "bind": HOST, "save": "", "appendonly": "no", "dir": directory}
        words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
        command = [shutil.which("redis-server") or "redis-server", *words, *options]
        super().__init__(command, directory / f"redis-{port}.log", plain_environment(), port=port)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def start(self) -> None:
        """Start it empty, as after a loss of all data."""
        need("redis")
        super().start()
        self.wait_until(self._answers)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end, unless it has ended."""
        if self.is_running():
            super().kill()

    def pause(self) -> None:
        """Stop the process: connections stay open and nothing is answered."""
        self.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            with redis.Redis(port=self.port) as client:
                return bool(client.ping())
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            return False
