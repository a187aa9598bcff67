"""Faults of an experiment: calls and answers that are dropped, receivers that quit, processes that are killed."""

from __future__ import annotations

import msgspec


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """All times are means of exponential distributions, but `mttr_s`."""

    drop_probability: float = 0
    """Of each call: it, or its answer (one as likely as the other), is lost between client and service."""
    quit_probability: float = 0
    """Of each receive: the receiver ends before it deletes, and another one starts."""
    mttf_s: float = 0
    """Of each API process; 0: none is killed."""
    mttr_s: float = 0
    """From the kill of a process to its new start."""


NO_FAULTS = Faults()
