"""The state of one endpoint, as its sends show it: how many it takes at once, and whether it may hang.

Arithmetic over starts and ends of sends, without I/O. Times are seconds of the caller's clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from cns.endpoints.outcome import EGRESS, Cause, Delivered, Outcome
from cns_workers.delivery.traffic.circuit_breaker import PROBE_PAUSE_MAX_S, CircuitBreaker
from cns_workers.delivery.traffic.endpoint_hints import Hint

OVERDUE_S = 1.0
"""A send without an answer for this long suggests that its endpoint hangs."""
SLOW_SENDS_MAX = 4
"""Concurrent sends to an endpoint that took the last message and has a send overdue."""
FAST_MS = 100
FAST_SHARE = 0.05  # of the answers may take longer: p95
ANSWERS_REMEMBERED = 64
ANSWERS_KNOWN = 20
"""The answers that are remembered; with fewer, the p95 is unknown."""
BLOCKED_S = 30.0
"""When to look again at an endpoint without room, if none of its sends ends before that."""

FAILING = frozenset({Cause.STATUS, Cause.TIMEOUT, Cause.CONNECTION, Cause.TLS, Cause.DNS, Cause.MAIL_RELAY})
"""Causes that say that an endpoint is down, unless they are permanent: then it is up and refuses."""

HINTED_SHARE = 4
"""The first limits of an endpoint with a hint are this part of the others'."""
FAILING_TOPICS_MAX = 10

_REMEMBERED = (1 << ANSWERS_REMEMBERED) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointLimits:
    sends: int = 10
    """Concurrent sends to an endpoint."""
    sends_fast: int = 100
    """The same to an endpoint whose p95 is below 100 ms."""
    failures: int = 20
    """Messages in a row that an endpoint fails to take until its circuit breaker opens. 0: it never opens."""


class EndpointState:
    __slots__ = (
        "_answers",
        "_history",
        "_limits",
        "_sends_max",
        "breaker",
        "failing_topics",
        "failure",
        "in_flight",
        "is_trusted",
        "lane_waits",
        "overdue",
        "probe_allowed",
        "probe_asked_ms",
        "timed_out",
    )

    def __init__(self, limits: EndpointLimits, hint: Hint | None = None) -> None:
        """A hint lowers the first limits; they rise with the answers as after a failure."""
        self._limits = limits
        self._sends_max = limits.sends if hint is None else max(limits.sends // HINTED_SHARE, 1)
        self._history = 0  # a bit for each answer that is remembered; set: it was slow
        self._answers = 0
        self.breaker = CircuitBreaker(limits.failures, _failures_first(limits.failures, hint))
        self.failure = ""
        """The cause of the last failure."""
        self.failing_topics: tuple[str, ...] = ()
        """The last topics whose messages it failed to take, since it took one."""
        self.probe_asked_ms = 0
        """When a person last asked for a probe."""
        self.in_flight = 0
        self.overdue = 0
        self.is_trusted = False
        """Whether it took the last message, or refused it in time: it did not hang."""
        self.timed_out = False
        """Whether it left the last message without an answer in time."""
        self.probe_allowed = False
        """Whether it has hung, and one send may try it again."""
        self.lane_waits = False
        """Whether a lane waits for its room."""

    def room(self, now_s: float, *, scarce: bool) -> int:
        """The number of sends that may start. `scarce`: sends that hang are about to take all room."""
        if self.breaker.is_open:
            limit = 1 if now_s >= self.breaker.probe_at_s else 0
        elif self.overdue:
            limit = SLOW_SENDS_MAX if self.is_trusted and not scarce else 1
        else:
            limit = self._sends_max
        return limit - self.in_flight

    def next_try_s(self, now_s: float) -> float:
        """When to ask again after there was no room."""
        if self.breaker.is_open and not self.in_flight:
            return max(self.breaker.probe_at_s, now_s)
        return now_s + BLOCKED_S

    def start(self) -> None:
        self.in_flight += 1
        self.probe_allowed = False

    def end(
        self,
        outcome: Outcome | None,
        message_id: str,
        now_s: float,
        *,
        was_overdue: bool,
        probe: bool,
        topic: str = "",
    ) -> None:
        """An `outcome` of None says nothing about the endpoint: the send was cancelled, or crashed."""
        self.in_flight -= 1
        self.overdue -= was_overdue
        if outcome is None:
            return
        if not isinstance(outcome, Delivered) and outcome.cause in EGRESS:  # it may not be the endpoint that failed
            if outcome.cause is Cause.EGRESS_ROUTE:  # but sends to it may hang
                self._note_hanging(outcome.dwell_ms)
            self.breaker.postpone(now_s)
            return
        if isinstance(outcome, Delivered) or outcome.permanent or outcome.cause not in FAILING:
            self._answer(outcome.dwell_ms)
        else:
            self._note_hanging(outcome.dwell_ms)
            self._sends_max = max(self._sends_max // 2, 1)
            self.failure = outcome.text or outcome.cause.value
            if topic not in self.failing_topics:
                self.failing_topics = (*self.failing_topics, topic)[-FAILING_TOPICS_MAX:]
            self.breaker.fail(message_id, now_s, probe=probe)

    def is_forgettable(self, now_s: float) -> bool:
        """Whether no send is in flight, and what is known is old or of no use."""
        return not self.in_flight and (not self.breaker.is_open or now_s > self.breaker.probe_at_s + PROBE_PAUSE_MAX_S)

    def _note_hanging(self, dwell_ms: int) -> None:
        self.timed_out = dwell_ms >= OVERDUE_S * 1000
        self.is_trusted = not self.timed_out

    def _answer(self, dwell_ms: int) -> None:
        self.is_trusted, self.timed_out, self.failing_topics = True, False, ()
        self._history = (self._history << 1 | (dwell_ms >= FAST_MS)) & _REMEMBERED
        self._answers = min(self._answers + 1, ANSWERS_REMEMBERED)
        if self.breaker.is_open:
            self._sends_max = 1
        self.breaker.succeed()
        fast = self._answers >= ANSWERS_KNOWN and self._history.bit_count() <= FAST_SHARE * self._answers
        self._sends_max = min(self._sends_max * 2, self._limits.sends_fast if fast else self._limits.sends)


def _failures_first(failures: int, hint: Hint | None) -> int:
    """The failures that open the breaker of an endpoint until it took a message. 0 stays 0: it never opens."""
    return max(failures // HINTED_SHARE, 1) if failures and hint == "failing" else failures
