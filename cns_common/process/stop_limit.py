"""The last resort of a process that was told to stop: it ends when its time is over, whatever hangs."""

from __future__ import annotations

import logging
import os
import threading

import structlog

STOP_S_MAX = 38.0
"""From the signal to the end, besides the time for balancers. Each step has a limit of its own; this is that of their
sum, of threads that hang and of a blocked event loop. A service manager kills after 40 s."""

log = structlog.get_logger(__name__)


def end_within(seconds: float) -> None:
    """End this process after so many seconds, if it has not ended by itself. It loses no more than by `kill -9`. The
    exit code is 0: it was stopped, as asked for."""

    def end() -> None:
        log.warning("process.stop_timed_out", seconds=seconds)
        logging.shutdown()
        os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True  # it does not keep the process from its end
    timer.start()
