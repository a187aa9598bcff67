"""The last resort of a process that was told to stop: it ends when its time is over, whatever hangs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

import structlog

STOP_S_MAX = 38.0
"""From the signal to the end, besides the time for balancers. Each step has a limit of its own; this is that of their
sum, of threads that hang and of a blocked event loop. A service manager kills after 40 s."""
SAY_S_MAX = 0.5
"""The time to say so: whoever reads the log may hang, too."""

log = structlog.get_logger(__name__)


def end_within(seconds: float) -> None:
    """End this process after so many seconds, if it has not ended by itself. It loses no more than by `kill -9`. The
    exit code is 0: it was stopped, as asked for."""

    def end() -> None:
        _later(SAY_S_MAX, lambda: os._exit(0))
        log.warning("process.stop_timed_out", seconds=seconds)
        logging.shutdown()
        os._exit(0)

    _later(seconds, end)


def _later(seconds: float, work: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, work)
    timer.daemon = True  # it does not keep the process from its end
    timer.start()
