"""One endpoint as its sends show it: how many at once it bears, and whether it is worth trying at all.

Arithmetic over what began and ended, without I/O; times are seconds of the caller's clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from cns.endpoints.outcome import Cause, Delivered, Outcome

OVERDUE_S = 1.0
"""A send without an answer for so long says that its endpoint may hang."""
SLOW_SENDS_MAX = 4
"""At once to an endpoint that took the last message and leaves one overdue."""
FAST_MS = 100
FAST_SHARE = 0.05  # of the answers may take longer: p95
ANSWERS_REMEMBERED = 64
ANSWERS_KNOWN = 20
"""So many must be there before p95 is one."""
PROBE_PAUSE_FIRST_S = 1.0
PROBE_PAUSE_MAX_S = 30.0
BLOCKED_S = 30.0
"""When to look again at an endpoint whose sends have taken all its room, if none of them ends before."""

FAILING = frozenset({Cause.STATUS, Cause.TIMEOUT, Cause.CONNECTION, Cause.TLS, Cause.DNS, Cause.MAIL_RELAY})
"""What an endpoint that is down answers, unless no later attempt can help: then it is up, and says no."""

_REMEMBERED = (1 << ANSWERS_REMEMBERED) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """`sends` go to an endpoint at once, `sends_fast` to one whose p95 is below 100 ms. After `failures` messages in a
    row that it failed to take its breaker opens; 0: never."""

    sends: int = 10
    sends_fast: int = 100
    failures: int = 20


class Endpoint:
    __slots__ = (
        "_answers",
        "_cap",
        "_failed",
        "_history",
        "_pause_s",
        "_terms",
        "hung",
        "in_flight",
        "open",
        "overdue",
        "probe_at_s",
        "proven",
        "turn",
    )

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._cap = terms.sends
        self._history = 0  # a bit for each answer that was remembered; set: it was slow
        self._answers = 0
        self._failed: set[str] = set()  # messages since the last success
        self._pause_s = PROBE_PAUSE_FIRST_S
        self.in_flight = 0
        self.overdue = 0
        self.proven = False
        """It took the last message that it was asked to take, or failed to at once: in no case did it hang."""
        self.hung = False
        """It left the last one without an answer in time."""
        self.turn = False
        """It may be tried although it hung."""
        self.open = False
        """The breaker: one send at a time, and a pause after each that fails."""
        self.probe_at_s = 0.0

    def room(self, now_s: float, *, pressed: bool) -> int:
        """How many sends may begin. `pressed`: sends that hang are about to take all the room there is."""
        limit = self._limit(now_s, pressed) if self.open or self.overdue else self._cap
        return limit - self.in_flight

    def next_try_s(self, now_s: float) -> float:
        """When to ask again after there was no room."""
        if self.open and not self.in_flight:
            return max(self.probe_at_s, now_s)
        return now_s + BLOCKED_S

    def began(self) -> bool:
        """Whether the send is a probe."""
        self.in_flight += 1
        self.turn = False
        return self.open

    def late(self) -> None:
        """One send has become overdue."""
        self.overdue += 1

    def ended(self, outcome: Outcome | None, message_id: str, now_s: float, *, was_late: bool, probe: bool) -> None:
        """None: the send was broken off, which says nothing about the endpoint."""
        self.in_flight -= 1
        self.overdue -= was_late
        if outcome is None:
            return
        if isinstance(outcome, Delivered) or outcome.permanent or outcome.cause not in FAILING:
            self._answered(outcome.dwell_ms)
        else:
            self.hung = outcome.dwell_ms >= OVERDUE_S * 1000
            self.proven = not self.hung
            self._failed_with(message_id, now_s, probe=probe)

    def forgettable(self, now_s: float) -> bool:
        """Nothing is under way, and what is known of it is old or of no use."""
        return not self.in_flight and (not self.open or now_s > self.probe_at_s + PROBE_PAUSE_MAX_S)

    def _limit(self, now_s: float, pressed: bool) -> int:
        """While it is open, or a send overdue."""
        if self.open:
            return 1 if now_s >= self.probe_at_s else 0
        return SLOW_SENDS_MAX if self.proven and not pressed else 1

    def _answered(self, dwell_ms: int) -> None:
        self.proven, self.hung = True, False
        self._failed.clear()
        self._history = (self._history << 1 | (dwell_ms >= FAST_MS)) & _REMEMBERED
        self._answers = min(self._answers + 1, ANSWERS_REMEMBERED)
        if self.open:
            self.open = False
            self._pause_s = PROBE_PAUSE_FIRST_S
            self._cap = 1
        self._cap = min(self._cap * 2, self._most)

    def _failed_with(self, message_id: str, now_s: float, *, probe: bool) -> None:
        self._cap = max(self._cap // 2, 1)
        if len(self._failed) < self._terms.failures:
            self._failed.add(message_id)
        if self.open:
            if probe:
                self._pause_s = min(self._pause_s * 2, PROBE_PAUSE_MAX_S)
                self.probe_at_s = now_s + self._pause_s
        elif 0 < self._terms.failures <= len(self._failed):
            self.open = True
            self.probe_at_s = now_s + self._pause_s

    @property
    def _most(self) -> int:
        known = self._answers >= ANSWERS_KNOWN
        fast = known and self._history.bit_count() <= FAST_SHARE * self._answers
        return self._terms.sends_fast if fast else self._terms.sends
