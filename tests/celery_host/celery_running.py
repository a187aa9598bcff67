"""Stock `celery` processes on our application: workers, beat, and the commands an operator types."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.harness.processes import BIN, Process, plain_environment
from lab.harness.waiting import PATIENCE_S

HOST = "here"


class CeleryProcess(Process):
    @property
    def node(self) -> str:
        """Its node name for remote control."""
        return f"{self.name}@{HOST}"

    def wait_event(self, event: str) -> None:
        self.wait_until(lambda: self.events(event))

    def wait_connected(self) -> None:
        """Wait until it answers remote control."""
        self.wait_printed(f"{self.node} ready.")


@dataclass(frozen=True)
class Celery:
    """`environment` names the store and the broker."""

    directory: Path
    environment: Mapping[str, str]
    started: list[CeleryProcess] = field(default_factory=list)

    def worker(self, name: str, *options: str) -> CeleryProcess:
        (worker,) = self.workers(name, options=options)
        return worker

    def workers(self, *names: str, options: Sequence[str] = ()) -> list[CeleryProcess]:
        """Start workers. Returns when they work, with or without a broker."""
        started = [self.start(name, "worker", "--hostname", f"{name}@{HOST}", *options) for name in names]
        for worker in started:
            worker.wait_event("worker.started")
        return started

    def start(self, name: str, *words: str) -> CeleryProcess:
        log = self.directory / f"{name}.log"
        started = CeleryProcess(self._command(words), log, plain_environment(**self.environment), name=name)
        started.start()
        self.started.append(started)
        return started

    def kill_all(self) -> None:
        for started in self.started:
            started.kill()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a `celery` command to its end."""
        return subprocess.run(
            self._command(words),
            capture_output=True,
            text=True,
            check=False,
            env=plain_environment(**self.environment),
            timeout=PATIENCE_S,
        )

    def ask(self, *words: str) -> dict[str, Any]:
        """The replies to `inspect` or `control`, by node."""
        kind, command, *more = words
        done = self.run(kind, command, "--json", *more)
        assert done.returncode == 0, done.stdout + done.stderr
        answers = json.loads(done.stdout)
        return answers if isinstance(answers, dict) else {node: said for one in answers for node, said in one.items()}

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return [str(BIN / "celery"), "-A", "cns_workers", *words]
