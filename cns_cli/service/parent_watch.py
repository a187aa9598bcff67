"""Stops a process when the program that started it ends, even by SIGKILL."""

from __future__ import annotations

import os
import signal
import sys
import threading

READ_BYTES = 65_536


def stop_with_parent() -> None:
    """Send SIGTERM to this process when standard input ends. Its content is ignored."""
    threading.Thread(target=_read_to_the_end, args=(sys.stdin.fileno(),), name="end-of-input", daemon=True).start()


def _read_to_the_end(descriptor: int) -> None:
    try:
        while os.read(descriptor, READ_BYTES):
            pass
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
