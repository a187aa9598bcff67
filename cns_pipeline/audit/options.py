"""Options of an audit."""

from __future__ import annotations

from dataclasses import dataclass

from cns_pipeline.period import EVERYTHING, Period

LOST_AFTER_MS = 15 * 86_400_000
"""The longest retention that a queue may have, and a day in which the message is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """`queues`: names or ARNs; none: all. `lost_after_ms`: a message is received sooner, or it is lost.

    `all_at_rest`: the operator says that the queues are empty now.
    """

    period: Period = EVERYTHING
    queues: tuple[str, ...] = ()
    lost_after_ms: int = LOST_AFTER_MS
    all_at_rest: bool = False
