"""Why a message or a notification may come twice: the causes of each form of the service, told by the times of a fault.

What has none of them is a fault like a loss.
"""

from __future__ import annotations

from typing import Protocol

from faults.accounting.ledger import NS_PER_S, Ledger, Receipt

SETTLED_WITHIN_NS = int(2.0 * NS_PER_S)
"""A worker settles one second after a job's first answer; the other is for a machine that is busy."""
REPEATED_WITHIN_NS = NS_PER_S
"""What an endpoint answered longer before a crash than that is settled, and not sent again: this is promised."""
AFTERMATH_NS = NS_PER_S // 2
"""How long after the service is whole again calls that the crash cut off still fail or are repeated."""
JITTER_NS = NS_PER_S // 10
"""Between a kill and when it is noted, or an answer and when its reader gets to it."""
REGAINED_WITHIN_NS = int(2.5 * NS_PER_S)
"""A process that missed Redis asks it again a second later, and until then hides messages from itself alone; the rest
is for what it took last."""
FOLLOWED_WITHIN_NS = 2 * NS_PER_S
"""Processes look for jumps of the test clock every second."""
GIVEN_UP_WITHIN_NS = 35 * NS_PER_S
"""A statement has three tries of ten seconds."""
MOVED_WITHIN_NS = 2 * NS_PER_S
"""A dead-letter move's delete follows its send at once; its time is that of the receive that met it."""

CLIENT_RETRY = "client retry after an unknown outcome"
LEASE_OVER = "lease ran out"
HIDING_LOST = "hiding lost with Redis"
CRASH_BEFORE_RECEIVE = "crash before a receive was durable"
CRASH_BEFORE_SETTLE = "crash before a settlement"
SETTLEMENT_FAILED = "settlement that the store did not take"
MOVE_CUT_OFF = "dead-letter move cut off between its queues"


class Causes(Protocol):
    def gone(self, before: Receipt, after: Receipt) -> bool:
        """Whether the message may not come any more, because its delete was acknowledged."""
        ...

    def of_repeat(self, before: Receipt, after: Receipt, *, fifo: bool) -> str:
        """Why one message was received again; '' when there is no cause."""
        ...

    def of_copy(self, first_ns: int, again_ns: int, published_ns: int, *, fans_out: bool) -> str:
        """Why a notification came again to one subscriber; '' when there is no cause. `published_ns` is 0 when nobody
        knows; `fans_out` says that a producer made its endpoint jobs."""
        ...

    def of_move(self, first_ns: int) -> str:
        """Why a move that had got as far as the dead-letter queue was done again; '' when there is no cause."""
        ...


class OneMachine:
    """The embedded form: one process hides, and what it hid is durable with the next commit."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def gone(self, before: Receipt, after: Receipt) -> bool:
        return 0 < before.deleted_ns < after.received_ns

    def of_repeat(self, before: Receipt, after: Receipt, *, fifo: bool) -> str:
        if self._ledger.lease_over(before.received_ns, after.received_ns):
            return LEASE_OVER
        if not fifo and self._crash_soon(before.received_ns, after.received_ns):
            return CRASH_BEFORE_RECEIVE
        return ""

    def of_copy(self, first_ns: int, again_ns: int, published_ns: int, *, fans_out: bool) -> str:
        if _jump_before_settlement(self._ledger, first_ns) or self._jump_before_send(first_ns, published_ns):
            return LEASE_OVER
        return CRASH_BEFORE_SETTLE if self._unsettled(first_ns) else ""

    def of_move(self, first_ns: int) -> str:
        """A settlement is one transaction."""
        return ""

    def _crash_soon(self, received_ns: int, again_ns: int) -> bool:
        """A receive is durable with the next commit, so only a crash right after it makes the message come again."""
        until = min(received_ns + SETTLED_WITHIN_NS, again_ns)
        return any(received_ns - JITTER_NS < kill < until for kill in self._ledger.kills_ns)

    def _jump_before_send(self, first_ns: int, published_ns: int) -> bool:
        """A busy worker has a job for a while first: one that it took just before a jump it sends just after it."""
        return any(published_ns < jump <= first_ns <= jump + SETTLED_WITHIN_NS for jump in self._ledger.jumps_ns)

    def _unsettled(self, arrived_ns: int) -> bool:
        return any(kill - REPEATED_WITHIN_NS <= arrived_ns <= back + AFTERMATH_NS for kill, back in self._ledger.falls)


class Cluster:
    """The cluster form: Redis hides, Cassandra knows what there is, and a fault takes away one part of several."""

    def __init__(self, ledger: Ledger, accepted: frozenset[str]) -> None:
        self._ledger = ledger
        self._accepted = accepted

    def gone(self, before: Receipt, after: Receipt) -> bool:
        """A receive that had begun before may have read the row before."""
        return 0 < before.deleted_ns < after.asked_ns

    def of_repeat(self, before: Receipt, after: Receipt, *, fifo: bool) -> str:
        """Of a FIFO queue Redis knows nothing, and a delete that may have been done has been done or not."""
        if fifo:
            return LEASE_OVER if self._ledger.lease_over(before.asked_ns, after.received_ns) else ""
        found = {
            LEASE_OVER: self._ledger.lease_over(before.received_ns, after.received_ns),
            CLIENT_RETRY: before.deletes_open > 0 and before.delete_asked_ns < after.received_ns,
            HIDING_LOST: self._lost_while_held(before, after),
        }
        return self._first(found)

    def of_copy(self, first_ns: int, again_ns: int, published_ns: int, *, fans_out: bool) -> str:
        found = {
            LEASE_OVER: _jump_before_settlement(self._ledger, first_ns) or self._while_clocks_differ(first_ns),
            HIDING_LOST: self._lost_before_settlement(first_ns, again_ns, published_ns),
            CRASH_BEFORE_SETTLE: self._crash_before_settlement(first_ns, again_ns)
            or (fans_out and self._crash_before_fanned_out(first_ns, again_ns, published_ns)),
            SETTLEMENT_FAILED: self._settlement_failed(first_ns, again_ns),
        }
        return self._first(found)

    def of_move(self, first_ns: int) -> str:
        """Its send was done, its delete was not: who moved it has died, or had lost the store."""
        return self._first({MOVE_CUT_OFF: self._while_away(first_ns)})

    def _first(self, found: dict[str, bool]) -> str:
        return next((cause for cause, is_so in found.items() if is_so and cause in self._accepted), "")

    def _while_away(self, moved_ns: int) -> bool:
        return any(kill - MOVED_WITHIN_NS <= moved_ns <= back + AFTERMATH_NS for kill, back in self._ledger.falls)

    def _while_clocks_differ(self, first_ns: int) -> bool:
        """Whoever has not yet followed a jump of the clock takes a job for a lease that has run out for the others."""
        return any(jump <= first_ns <= jump + FOLLOWED_WITHIN_NS for jump in self._ledger.jumps_ns)

    def _lost_while_held(self, before: Receipt, after: Receipt) -> bool:
        """From the kill until every process asks Redis again, what one of them gave out another does not know of."""
        until_ns = before.deleted_ns or after.received_ns
        return any(
            before.asked_ns <= back + REGAINED_WITHIN_NS and kill - JITTER_NS <= until_ns and kill <= after.received_ns
            for kill, back in self._ledger.falls
        )

    def _lost_before_settlement(self, first_ns: int, again_ns: int, published_ns: int) -> bool:
        """Its job was there meanwhile. When it was taken nobody knows: a busy worker has it for a while first."""
        return any(
            published_ns <= back + REGAINED_WITHIN_NS and kill - SETTLED_WITHIN_NS <= first_ns and kill <= again_ns
            for kill, back in self._ledger.falls
        )

    def _crash_before_settlement(self, first_ns: int, again_ns: int) -> bool:
        """It was sent by the process that died: what others do, they settle."""
        return any(
            kill - SETTLED_WITHIN_NS <= first_ns <= kill + AFTERMATH_NS and kill <= again_ns
            for kill, _ in self._ledger.falls
        )

    def _crash_before_fanned_out(self, first_ns: int, again_ns: int, published_ns: int) -> bool:
        """Its endpoint jobs were made by the process that died, its publish job was still there."""
        return any(
            published_ns <= kill and kill - SETTLED_WITHIN_NS <= first_ns and kill <= again_ns
            for kill, _ in self._ledger.falls
        )

    def _settlement_failed(self, first_ns: int, again_ns: int) -> bool:
        """A worker said so after the first came."""
        return any(first_ns <= failed < first_ns + GIVEN_UP_WITHIN_NS for failed in self._ledger.failures_ns)


def _jump_before_settlement(ledger: Ledger, arrived_ns: int) -> bool:
    return any(arrived_ns < jump < arrived_ns + SETTLED_WITHIN_NS for jump in ledger.jumps_ns)
