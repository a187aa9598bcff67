"""A sampling profile of any Python server and all processes it starts, by a timer that counts CPU time.

    python -m lab.measure.sampler OUT -- MODULE [argument ...]

Each process writes OUT/<pid>-<n>.txt: SIGUSR1 ends section n and begins the next, the end of the process ends the last.
The handler runs in the main thread, between two bytecodes: C code counts for the Python function that called it, and
the event loop's own work between two callbacks for the next callback. Each thread's stack is weighted with the CPU time
it has used since the last sample; other threads are sampled where they released the interpreter lock.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType

OUT_VARIABLE = "SAMPLER_OUT"
ROOT = Path(__file__).parents[2]
INTERVAL_S = 0.004
LINES_MAX = 60
SHARE_MIN = 0.002


class Sampler:
    """The samples of one process since the last section ended."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._section = 0
        self._main = threading.main_thread().ident
        self._clear()

    def start(self) -> None:
        self._out.mkdir(parents=True, exist_ok=True)
        signal.signal(signal.SIGPROF, self._sample)
        signal.siginterrupt(signal.SIGPROF, False)
        signal.signal(signal.SIGUSR1, self._end_section)
        signal.signal(signal.SIGTERM, self._end)
        atexit.register(self._end_section)
        atexit.register(signal.setitimer, signal.ITIMER_PROF, 0)  # the interpreter's end takes the handlers away
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)  # not inherited by a fork, and it must not be:
        # it would outlive the exec that follows, and its signal ends a program that has no handler yet

    def _clear(self) -> None:
        self._self: defaultdict[CodeType, float] = defaultdict(float)
        self._total: defaultdict[CodeType, float] = defaultdict(float)
        self._samples = 0
        self._python_s = 0.0
        self._began_s = time.process_time()
        self._used_s: dict[int, float] = {thread: _cpu_s(thread) for thread in sys._current_frames()}

    def _sample(self, _signal: int, interrupted: FrameType | None) -> None:
        self._samples += 1
        for thread, top in sys._current_frames().items():
            used_s = _cpu_s(thread)
            weight = used_s - self._used_s.get(thread, 0.0)
            self._used_s[thread] = used_s
            if weight > 0:
                self._weigh(interrupted if thread == self._main else top, weight)

    def _weigh(self, frame: FrameType | None, weight: float) -> None:
        self._python_s += weight
        if frame is not None:
            self._self[frame.f_code] += weight
        codes = set()
        while frame is not None:
            codes.add(frame.f_code)
            frame = frame.f_back
        for code in codes:  # recursion counts once
            self._total[code] += weight

    def _end_section(self, *_: object) -> None:
        (self._out / f"{os.getpid()}-{self._section}.txt").write_text(self._render())
        self._section += 1
        self._clear()

    def _end(self, *_: object) -> None:
        """Runs if the server does not handle SIGTERM, or raises it again after its shutdown."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.exit(128 + signal.SIGTERM)

    def _render(self) -> str:
        used_s = time.process_time() - self._began_s
        all_s = used_s or 1.0
        rest = max(used_s - self._python_s, 0.0) / all_s
        lines = [
            " ".join(word for word in sys.orig_argv[1:] if os.sep not in word),  # no directories of this machine
            f"{self._samples} samples, {used_s:.2f} CPU seconds",
            "",
            "  self%  total%  function",
            f"{rest:7.1%} {rest:7.1%}  (not seen: threads without Python, and what was used after the last sample)",
        ]
        for code, total_s in sorted(self._total.items(), key=lambda item: (-self._self[item[0]], -item[1]))[:LINES_MAX]:
            if total_s / all_s >= SHARE_MIN:
                lines.append(f"{self._self[code] / all_s:7.1%} {total_s / all_s:7.1%}  {_name(code)}")
        return "\n".join(lines) + "\n"


def _cpu_s(thread: int) -> float:
    """The CPU time of a live thread; all threads whose frames the interpreter lists are alive."""
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


def _name(code: CodeType) -> str:
    """The function and its file, without this machine's directories."""
    path = Path(code.co_filename)
    if path.is_relative_to(ROOT) and "site-packages" not in path.parts:
        path = path.relative_to(ROOT)
    return f"{code.co_qualname}  {'/'.join(path.parts[-3:])}:{code.co_firstlineno}"


def start_if_asked() -> None:
    if out := os.environ.get(OUT_VARIABLE):
        Sampler(Path(out)).start()


def environment(out: Path) -> dict[str, str]:
    """Environment variables that make a server and its descendants sample themselves."""
    paths = [str(Path(__file__).parent / "sampling"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {OUT_VARIABLE: str(out.absolute()), "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def main() -> None:
    out, dashes, *command = sys.argv[1:]
    if dashes != "--" or not command:
        sys.exit(__doc__)
    os.environ.update(environment(Path(out)))
    os.execv(sys.executable, [sys.executable, "-m", *command])


if __name__ == "__main__":
    main()
