"""Stock `celery` processes on our application: workers, beat, and the commands an operator types."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.harness.processes import BIN
from lab.harness.waiting import PATIENCE_S, wait_until

HOST = "here"


@dataclass(frozen=True)
class CeleryProcess:
    name: str
    said_path: Path
    process: subprocess.Popen[bytes]

    @property
    def node(self) -> str:
        """Its node name for remote control."""
        return f"{self.name}@{HOST}"

    def said(self) -> str:
        return self.said_path.read_text()

    def events(self, event: str) -> list[dict[str, Any]]:
        """The log events with this name."""
        logged = [json.loads(line) for line in self.said().splitlines() if line.startswith('{"')]
        return [entry for entry in logged if entry["event"] == event]

    def wait_event(self, event: str) -> None:
        wait_until(lambda: self.process.poll() is not None or self.events(event), PATIENCE_S, self.said)
        assert self.process.poll() is None, self.said()

    def wait_connected(self) -> None:
        """Wait until it answers remote control."""
        wait_until(lambda: f"{self.node} ready." in self.said(), PATIENCE_S, self.said)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end. Returns the exit code."""
        return self.process.wait(PATIENCE_S)

    def stop(self) -> int:
        """Shut down warmly. Returns the exit code."""
        self.process.terminate()
        return self.wait()


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
        said_path = self.directory / f"{name}.said"
        with said_path.open("wb") as out:
            process = subprocess.Popen(
                self._command(words), stdout=out, stderr=subprocess.STDOUT, env=self._variables()
            )
        started = CeleryProcess(name, said_path, process)
        self.started.append(started)
        return started

    def kill_all(self) -> None:
        for started in self.started:
            started.process.kill()
            started.process.wait()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a `celery` command to its end."""
        return subprocess.run(
            self._command(words),
            capture_output=True,
            text=True,
            check=False,
            env=self._variables(),
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

    def _variables(self) -> dict[str, str]:
        return {**os.environ, **self.environment}
