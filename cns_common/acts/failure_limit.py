"""Limits how many acts that failed, or changed nothing, are recorded.

Whoever may cause them at will must not push other acts out of the log, whose size is limited.
"""

from __future__ import annotations

from collections.abc import Callable

from cns_common.acts.record import Actor
from cns_common.log_throttle import LogThrottle

PER_S = 10
"""Of one account, or one portal link."""
PER_S_ANONYMOUS = 1
"""Of all callers without credentials at one face."""
ACTORS_MAX = 10_000
"""Actors beyond it are limited together."""


class FailureLimit:
    """For one process. `now_s` is a monotonic clock, in seconds."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._throttles: dict[str, LogThrottle] = {}

    def admit(self, actor: Actor) -> int | None:
        """The number of such acts that were not recorded since the last one that was, or None if this one is not to be
        recorded either."""
        portal = actor.via == "portal"  # its visitor must not use up what the account has
        who = actor.principal if portal or not actor.account else actor.account
        key = who or f"anonymous {actor.via}"
        if who and key not in self._throttles and len(self._throttles) >= ACTORS_MAX:
            key = "others"
        throttle = self._throttles.get(key)
        if throttle is None:
            throttle = LogThrottle(self._now_s, PER_S if who else PER_S_ANONYMOUS)
            self._throttles[key] = throttle
        return throttle.admit()
