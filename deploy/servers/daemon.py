"""A process that outlives the command that started it. Its pid is checked before each signal."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_INTERVAL_S = 0.05
KILL_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """Identified by pid *and* start time, because a pid may be reused."""

    record: Path
    output: Path

    def start(self, command: Sequence[str], directory: Path) -> None:
        """Start in a new session without our descriptors, so that it does not hold a caller's lock or pipe."""
        with self.output.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                start_new_session=True,
            )
        self.record.write_text(f"{process.pid} {_state_and_start(process.pid)[1]}")

    def pid(self) -> int | None:
        """Return None if the process has ended or was never started."""
        recorded = self._recorded_process()
        return recorded[0] if recorded and _is_same_process(*recorded) else None

    def is_paused(self) -> bool:
        pid = self.pid()
        return pid is not None and _state_and_start(pid)[0] in "Tt"

    def memory_mib(self) -> int:
        """Return the resident memory, shared pages included."""
        try:
            lines = Path(f"/proc/{self.pid()}/status").read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) // 1024

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; return whether the process was running."""
        recorded = self._recorded_process()
        if recorded is None:
            return False
        try:
            handle = os.pidfd_open(recorded[0])  # from here on a reuse of the pid cannot go unnoticed
        except ProcessLookupError:
            return False
        try:
            if not _is_same_process(*recorded):
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        wait_until(lambda: self.pid() is None, KILL_S)

    def stop(self, grace_s: float) -> bool:
        """Ask the process to end, and kill it after `grace_s`; return whether it ended by itself."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if wait_until(lambda: self.pid() is None, grace_s):
            return True
        self.kill()
        return False

    def _recorded_process(self) -> tuple[int, int] | None:
        try:
            pid, start_ticks = self.record.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid), int(start_ticks)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll until the condition holds; return whether it did in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(POLL_INTERVAL_S)  # between two looks: another process's start and end raise no event here
    return True


def _is_same_process(pid: int, start_ticks: int) -> bool:
    """Return whether the pid is still the process with this start time."""
    state, started_ticks = _state_and_start(pid)
    return started_ticks == start_ticks and state != "X" and (state != "Z" or _has_threads(pid))


def _has_threads(pid: int) -> bool:
    """Return whether a zombie's other threads are still ending: until then its ports are in use."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except OSError:
        return False


def _state_and_start(pid: int) -> tuple[str, int]:
    """Return the state and the start time in clock ticks since boot, from /proc; ("X", -1) if there is no process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X", -1
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])
