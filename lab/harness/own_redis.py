"""A Redis for one test, which may be killed and paused."""

from __future__ import annotations

import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import redis

from lab.harness.parts import need
from lab.harness.ports import free_port
from lab.harness.waiting import PATIENCE_S, wait_until


@dataclass
class OwnRedis:
    directory: Path
    port: int = field(default_factory=free_port)
    options: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it empty, as after a loss of all data."""
        need("redis")
        program = shutil.which("redis-server")
        assert program, "redis-server is missing: `make servers-up` says how to get it"
        settings = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": self.directory}
        options = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
        self._process = subprocess.Popen([program, *options, *self.options], stdout=subprocess.DEVNULL)
        wait_until(self._answers, PATIENCE_S, lambda: "redis-server does not answer")

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop the process: connections stay open and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _answers(self) -> bool:
        try:
            with redis.Redis(port=self.port) as client:
                return bool(client.ping())
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            return False
