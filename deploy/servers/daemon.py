"""A process that outlives the command which starts it, and is signalled only while it still is that process."""

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
    """Known by its pid *and* start time: a pid alone may be another process by now."""

    record: Path
    output: Path

    def start(self, command: Sequence[str], directory: Path) -> None:
        """In a session of its own and without our descriptors: it must not hold a caller's lock or pipe."""
        with self.output.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                start_new_session=True,
            )
        self.record.write_text(f"{process.pid} {_state_and_birth(process.pid)[1]}")

    def pid(self) -> int | None:
        """None when it has ended, or was never started."""
        recorded = self._recorded()
        return recorded[0] if recorded and _is(*recorded) else None

    def is_paused(self) -> bool:
        pid = self.pid()
        return pid is not None and _state_and_birth(pid)[0] in "Tt"

    def memory_mib(self) -> int:
        """Resident, with what it shares."""
        try:
            lines = Path(f"/proc/{self.pid()}/status").read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) // 1024

    def signal(self, number: signal.Signals) -> bool:
        """Whether the process was there to get it."""
        recorded = self._recorded()
        if recorded is None:
            return False
        try:
            handle = os.pidfd_open(recorded[0])  # from here on the pid cannot change hands unseen
        except ProcessLookupError:
            return False
        try:
            if not _is(*recorded):
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
        """Ask it to end, and kill it when it does not; whether it ended by itself."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if wait_until(lambda: self.pid() is None, grace_s):
            return True
        self.kill()
        return False

    def _recorded(self) -> tuple[int, int] | None:
        try:
            pid, birth = self.record.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid), int(birth)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Look again and again; whether it came true in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True


def _is(pid: int, birth: int) -> bool:
    """Whether this pid still is the process that was born then."""
    state, born = _state_and_birth(pid)
    return born == birth and state != "X" and (state != "Z" or _has_threads(pid))


def _has_threads(pid: int) -> bool:
    """Whether a zombie's other threads are still ending: until then its ports are not free."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except OSError:
        return False


def _state_and_birth(pid: int) -> tuple[str, int]:
    """From /proc: its state, and its start in clock ticks since the machine's; ("X", -1) when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X", -1
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])
