"""Permitted causes of duplicate messages and notifications, found by comparing their times with those of the faults.

A duplicate without a cause makes a round invalid, as a loss does.
"""

from __future__ import annotations

from lab.faults.accounting.ledger import NS_PER_S, Ledger, Receipt

SETTLED_WITHIN_NS = int(2.0 * NS_PER_S)
"""A worker settles one second after a job's first answer; the second one is slack for a busy machine."""
REPEATED_WITHIN_NS = NS_PER_S
"""Guarantee: a delivery answered longer than this before a crash is settled, and not sent again."""
AFTERMATH_NS = NS_PER_S // 2
"""The time after a recovery in which calls that a crash cut off still fail or are repeated."""
JITTER_NS = NS_PER_S // 10
"""Between a kill and its note in the ledger, or between an answer and the moment its reader runs."""
REGAINED_WITHIN_NS = int(2.5 * NS_PER_S)
"""A process that lost Redis asks it again a second later, and until then hides messages only from itself; the rest
covers the messages it received last."""
FOLLOWED_WITHIN_NS = 2 * NS_PER_S
"""Processes poll for jumps of the test clock every second."""
GIVEN_UP_WITHIN_NS = 35 * NS_PER_S
"""A statement is tried three times, for ten seconds each."""
HELD_WITHIN_NS = 6 * NS_PER_S
"""A call waits for five seconds for a store that restarts; the last one is slack for a busy machine."""
MOVED_WITHIN_NS = 2 * NS_PER_S
"""The delete of a dead-letter move follows its send at once; its time is that of the receive that started the move."""

CLIENT_RETRY = "client retry after an unknown outcome"
LEASE_OVER = "lease ran out"
HIDING_LOST = "hiding lost with Redis"
CRASH_BEFORE_RECEIVE = "crash before a receive was durable"
CRASH_BEFORE_SETTLE = "crash before a settlement"
SETTLEMENT_FAILED = "settlement that the store did not take"
MOVE_CUT_OFF = "dead-letter move cut off between its queues"


class Causes:
    """Each method returns '' if there is no cause."""

    delivers_in_commit = False
    """Whether a queue gets a notification in the commit of its publish, so that there is no cause for a second copy."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def is_deleted(self, before: Receipt, after: Receipt) -> bool:
        """Whether the message must not be received any more, because its delete was acknowledged."""
        raise NotImplementedError

    def repeat_cause(self, before: Receipt, after: Receipt, *, fifo: bool) -> str:
        """The cause why one message was received again."""
        raise NotImplementedError

    def copy_cause(self, first_ns: int, again_ns: int, published_ns: int, *, fans_out: bool) -> str:
        """The cause why a notification came again to one subscriber. `published_ns` is 0 if unknown; `fans_out` is true
        if a producer made its endpoint jobs."""
        raise NotImplementedError

    def move_cause(self, first_ns: int) -> str:
        """The cause why a move that had reached the dead-letter queue was repeated. None where a settlement is one
        transaction."""
        return ""


class EmbeddedCauses(Causes):
    """The embedded form: one process leases messages, and a lease is durable with the next commit."""

    delivers_in_commit = True

    def is_deleted(self, before: Receipt, after: Receipt) -> bool:
        return 0 < before.deleted_ns < after.received_ns

    def repeat_cause(self, before: Receipt, after: Receipt, *, fifo: bool) -> str:
        if self._ledger.lease_over(before.received_ns, after.received_ns):
            return LEASE_OVER
        if not fifo and self._crash_soon(before.received_ns, after.received_ns):
            return CRASH_BEFORE_RECEIVE
        return ""

    def copy_cause(self, first_ns: int, again_ns: int, published_ns: int, *, fans_out: bool) -> str:
        if _jump_before_settlement(self._ledger, first_ns) or self._jump_before_send(first_ns, published_ns):
            return LEASE_OVER
        if self._lease_lost(first_ns, published_ns):
            return CRASH_BEFORE_RECEIVE
        return CRASH_BEFORE_SETTLE if self._unsettled(first_ns) else ""

    def _crash_soon(self, received_ns: int, again_ns: int) -> bool:
        """A receive is durable with the next commit: only a crash right after it makes the message visible again."""
        until = min(received_ns + SETTLED_WITHIN_NS, again_ns)
        return any(received_ns - JITTER_NS < kill < until for kill in self._ledger.kills_ns)

    def _lease_lost(self, first_ns: int, published_ns: int) -> bool:
        """A worker that received a job right before a crash waits for the store, and sends then; but the lease was not
        durable, so the job is received and sent again."""
        return any(
            kill - SETTLED_WITHIN_NS < published_ns < kill < first_ns <= kill + HELD_WITHIN_NS
            for kill in self._ledger.kills_ns
        )

    def _jump_before_send(self, first_ns: int, published_ns: int) -> bool:
        """A busy worker delays jobs: a job it received just before a jump may be sent just after it."""
        return any(published_ns < jump <= first_ns <= jump + SETTLED_WITHIN_NS for jump in self._ledger.jumps_ns)

    def _unsettled(self, arrived_ns: int) -> bool:
        return any(
            kill - REPEATED_WITHIN_NS <= arrived_ns <= back + AFTERMATH_NS for kill, back in self._ledger.outages
        )


class ClusterCauses(Causes):
    """The cluster form: Redis has the leases, Cassandra the messages, and a fault hits one of several processes."""

    def __init__(self, ledger: Ledger, accepted: frozenset[str]) -> None:
        super().__init__(ledger)
        self._accepted = accepted

    def is_deleted(self, before: Receipt, after: Receipt) -> bool:
        """Only for receives that began after the delete: an earlier one may have read the row before."""
        return 0 < before.deleted_ns < after.asked_ns

    def repeat_cause(self, before: Receipt, after: Receipt, *, fifo: bool) -> str:
        """FIFO queues do not use Redis, and a delete without an answer does not make a message visible."""
        if fifo:
            return LEASE_OVER if self._ledger.lease_over(before.asked_ns, after.received_ns) else ""
        found = {
            LEASE_OVER: self._ledger.lease_over(before.received_ns, after.received_ns),
            CLIENT_RETRY: before.unknown_deletes > 0 and before.delete_asked_ns < after.received_ns,
            HIDING_LOST: self._lost_while_held(before, after),
        }
        return self._first(found)

    def copy_cause(self, first_ns: int, again_ns: int, published_ns: int, *, fans_out: bool) -> str:
        found = {
            LEASE_OVER: _jump_before_settlement(self._ledger, first_ns) or self._while_clocks_differ(first_ns),
            HIDING_LOST: self._lost_before_settlement(first_ns, again_ns, published_ns),
            CRASH_BEFORE_SETTLE: self._crash_before_settlement(first_ns, again_ns)
            or (fans_out and self._crash_before_fanned_out(first_ns, again_ns, published_ns)),
            SETTLEMENT_FAILED: self._settlement_failed(first_ns, again_ns),
        }
        return self._first(found)

    def move_cause(self, first_ns: int) -> str:
        """The move's send was done and its delete was not: its process died or lost the store."""
        return self._first({MOVE_CUT_OFF: self._while_away(first_ns)})

    def _first(self, found: dict[str, bool]) -> str:
        return next((cause for cause, is_so in found.items() if is_so and cause in self._accepted), "")

    def _while_away(self, moved_ns: int) -> bool:
        return any(kill - MOVED_WITHIN_NS <= moved_ns <= back + AFTERMATH_NS for kill, back in self._ledger.outages)

    def _while_clocks_differ(self, first_ns: int) -> bool:
        """A process that has not yet followed a jump of the clock leases a job until a time already past for others."""
        return any(jump <= first_ns <= jump + FOLLOWED_WITHIN_NS for jump in self._ledger.jumps_ns)

    def _lost_while_held(self, before: Receipt, after: Receipt) -> bool:
        """From the kill until every process asks Redis again, a process does not know the leases of the others."""
        until_ns = before.deleted_ns or after.received_ns
        return any(
            before.asked_ns <= back + REGAINED_WITHIN_NS and kill - JITTER_NS <= until_ns and kill <= after.received_ns
            for kill, back in self._ledger.outages
        )

    def _lost_before_settlement(self, first_ns: int, again_ns: int, published_ns: int) -> bool:
        """Its job existed during the outage. When it was received is unknown: a busy worker delays jobs."""
        return any(
            published_ns <= back + REGAINED_WITHIN_NS and kill - SETTLED_WITHIN_NS <= first_ns and kill <= again_ns
            for kill, back in self._ledger.outages
        )

    def _crash_before_settlement(self, first_ns: int, again_ns: int) -> bool:
        """The killed process sent it: the others settle what they sent."""
        return any(
            kill - SETTLED_WITHIN_NS <= first_ns <= kill + AFTERMATH_NS and kill <= again_ns
            for kill, _ in self._ledger.outages
        )

    def _crash_before_fanned_out(self, first_ns: int, again_ns: int, published_ns: int) -> bool:
        """The killed process made its endpoint jobs, and its publish job was still there."""
        return any(
            published_ns <= kill and kill - SETTLED_WITHIN_NS <= first_ns and kill <= again_ns
            for kill, _ in self._ledger.outages
        )

    def _settlement_failed(self, first_ns: int, again_ns: int) -> bool:
        """A worker logged a failed settlement after the first arrival."""
        return any(first_ns <= failed < first_ns + GIVEN_UP_WITHIN_NS for failed in self._ledger.failures_ns)


def _jump_before_settlement(ledger: Ledger, arrived_ns: int) -> bool:
    return any(arrived_ns < jump < arrived_ns + SETTLED_WITHIN_NS for jump in ledger.jumps_ns)
