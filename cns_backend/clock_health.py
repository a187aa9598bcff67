"""Says whether a wrong machine clock keeps a worker from delivering, for `/health` and `cns pool list`."""

from __future__ import annotations

from collections.abc import Iterable

from cns_common.metrics.catalogue import CLOCK_OFFSET_SECONDS, CLOCK_RECEIVES_REFUSED
from cns_common.metrics.model import Sample

WRONG_S = 5.0


def clock_difference(seconds: float) -> str:
    return f"clock is {abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} Cassandra's"


def why_idle(samples: Iterable[Sample]) -> str:
    """Why a worker with these samples delivers nothing; empty if its clock is not the cause."""
    values = {sample.name: sample.value for sample in samples}
    if not values.get(CLOCK_RECEIVES_REFUSED.name):
        return ""
    seconds = values.get(CLOCK_OFFSET_SECONDS.name, 0.0)
    if abs(seconds) < WRONG_S:  # it was set just now
        return "delivers nothing yet: its machine's clock was set back, and message time waits until it catches up"
    return f"delivers nothing: its machine's {clock_difference(seconds)}"
