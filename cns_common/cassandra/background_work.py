"""Marks statements as background work, so that their number can be seen by the kind of work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

background_work: ContextVar[str] = ContextVar("background_work", default="")
"""The kind of work that the running task does; '' for a caller's."""

MEMBERSHIP = "membership"
"""The work by which a process joins the living ones, and stays one of them."""


@contextlib.contextmanager
def background(work: str) -> Iterator[None]:
    """Count the statements within, and those of tasks started within, as this kind of background work."""
    token = background_work.set(work)
    try:
        yield
    finally:
        background_work.reset(token)
