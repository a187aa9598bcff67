"""Faults of an experiment: calls and answers that are dropped, receivers that quit, processes that are killed."""

from __future__ import annotations

import msgspec


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Probabilities and times of faults. Times are means of exponential distributions, but `mttr_s` is a fixed time."""

    drop_probability: float = 0
    """For each call: the chance that it, or equally likely its answer, is lost between client and service."""
    quit_probability: float = 0
    """For each receive: the chance that the receiver ends before it deletes, and another one starts."""
    mttf_s: float = 0
    """The time until an API process is killed; 0: none is killed."""
    mttr_s: float = 0
    """The time from the kill of a process to its new start."""


NO_FAULTS = Faults()
