"""The HTTP server of a process that decides for itself when to stop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import uvicorn


class QuietServer(uvicorn.Server):
    """Leaves signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
