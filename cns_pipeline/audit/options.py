"""Options of an audit."""

from __future__ import annotations

from dataclasses import dataclass

from cns_pipeline.period import EVERYTHING, Period

LOST_AFTER_MS = 15 * 86_400_000
"""The longest retention of a queue, and one day for the removal of the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """`queues`: names or ARNs; empty: all. `lost_after_ms`: a message that is not received by this age is lost.

    `all_at_rest`: the operator confirms that the queues are empty now.
    """

    period: Period = EVERYTHING
    queues: tuple[str, ...] = ()
    lost_after_ms: int = LOST_AFTER_MS
    all_at_rest: bool = False
