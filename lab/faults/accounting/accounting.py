"""Total-queue accounting of a kill round: valid only if nothing acknowledged is lost and nothing is invented.

Every duplicate must have a cause (`causes`): one without is a fault like a loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from lab.faults.accounting.arrivals import Arrivals
from lab.faults.accounting.causes import CLIENT_RETRY, Causes
from lab.faults.accounting.failing_endpoints import DOOMED_ATTEMPTS, FAILING_PAUSE_S, FailingEndpoints
from lab.faults.accounting.fifo_topic import ordered_faults
from lab.faults.accounting.groups import exclusivity_faults, groups_of, order_faults, repeat_faults
from lab.faults.accounting.ledger import NS_PER_MS, NS_PER_S, Ledger, Receipt, SentMessage, grouped
from lab.faults.accounting.redrive_queue import redrive_faults
from lab.faults.service.resources import VISIBILITY_S, RoundResources

MISSING = ("lost", "never deleted", "notification lost")


class Account:
    """`faults` is empty if the round is valid; `duplicates` counts by cause. `repeated_ns` is the longest time from the
    first arrival of a notification to a crash, of all notifications that arrived again after it."""

    def __init__(self, resources: RoundResources, ledger: Ledger, arrivals: Arrivals, causes: Causes) -> None:
        self._resources = resources
        self._ledger = ledger
        self._arrivals = arrivals
        self._causes = causes
        self.faults: list[str] = []
        self.duplicates: Counter[str] = Counter()
        self.repeated_ns = 0
        self._check_queue(resources.standard)
        self._check_queue(resources.fifo)
        self._check_groups()
        self.faults += redrive_faults(resources, ledger)
        self.faults += [f"refused: {refusal}" for refusal in ledger.refusals]
        self.faults += repeat_faults([*ledger.of(resources.fifo), *ledger.of(resources.redrive)])
        self._check_moves()
        for queue in resources.ordered_queues:
            self._check_repeats(ledger.receipts_of(queue), fifo=True)
        self.faults += ordered_faults(resources, ledger)
        self._check_envelopes()
        for topic in resources.subscribers:
            self._check_topic(topic)
        if resources.failing_endpoints is not None:
            self._check_failing_endpoints(resources.failing_endpoints)
        elif arrivals.failed:
            self._fault("failed", f"{arrivals.failed} attempts failed at healthy endpoints")

    @property
    def missing(self) -> bool:
        """Whether an acknowledged message has not arrived yet, or is not deleted yet."""
        return any(fault.startswith(MISSING) for fault in self.faults)

    def counts(self) -> dict[str, Any]:
        """The members of a `LoadResult` that this account knows."""
        ledger, resources = self._ledger, self._resources
        queues, topics = (
            (resources.standard, resources.fifo, resources.redrive),
            (*resources.subscribers, resources.ordered),
        )
        notified = (resources.news_queue, *resources.ordered_queues)
        came = {receipt.id for queue in notified for receipt in ledger.receipts_of(queue)}
        return {
            "messages": sum(ledger.acknowledged(queue) for queue in queues),
            "notifications": sum(ledger.acknowledged(topic) for topic in topics),
            "in_order": ledger.acknowledged(resources.ordered),
            "deliveries": self._arrivals.count + len(came),
            "unanswered": sum(ledger.unknown_outcomes(target) for target in (*queues, *topics)),
            "duplicates": dict(+self.duplicates),
        }

    def _fault(self, kind: str, what: object) -> None:
        self.faults.append(f"{kind}: {what}")

    # -- queues -------------------------------------------------------------------------------------------------------

    def _check_queue(self, queue: str) -> None:
        receipts = self._ledger.receipts_of(queue)
        by_text: dict[str, set[str]] = {}
        for receipt in receipts:
            by_text.setdefault(receipt.text, set()).add(receipt.id)
        messages = self._ledger.sent.get(queue, {})
        for text in by_text.keys() - messages.keys():
            self._fault("invented", f"{text[:60]!r} in {queue}")
        for message in messages.values():
            self._check_message(message, by_text.get(message.text, set()), fifo=queue == self._resources.fifo)
        self._check_repeats(receipts, fifo=queue == self._resources.fifo)

    def _check_message(self, message: SentMessage, received: set[str], *, fifo: bool) -> None:
        for message_id in set(message.ids) - received:
            self._fault("lost", f"{message.text} as {message_id}")
        unasked = len(received - set(message.ids))
        if unasked > (0 if fifo else message.unknown_outcomes):  # deduplication merges the retries of a FIFO sender
            self._fault("invented", f"{message.text} was received {unasked} times more than it was sent")
        self.duplicates[CLIENT_RETRY] += unasked

    def _check_repeats(self, receipts: Sequence[Receipt], *, fifo: bool) -> None:
        for same in grouped(receipts, lambda receipt: receipt.id).values():
            if not same[-1].deleted_ns:
                self._fault("never deleted", same[-1].text)
            for before, after in pairwise(same):
                self._check_repeat(before, after, fifo=fifo)

    def _check_repeat(self, before: Receipt, after: Receipt, *, fifo: bool) -> None:
        if self._causes.is_deleted(before, after):
            self._fault("came back", f"{before.text}, {_ms(after.received_ns - before.deleted_ns)} after its delete")
        elif cause := self._causes.repeat_cause(before, after, fifo=fifo):
            self.duplicates[cause] += 1
        else:
            self._fault("duplicate", f"{before.text} twice within {_ms(after.received_ns - before.received_ns)}")

    # -- FIFO groups --------------------------------------------------------------------------------------------------

    def _check_groups(self) -> None:
        sent = self._ledger.sent.get(self._resources.fifo, {})
        for group, receipts in groups_of(self._ledger.receipts_of(self._resources.fifo)).items():
            self.faults += order_faults(f"group {group}", receipts, sent)
            self.faults += exclusivity_faults(group, receipts, self._ledger, VISIBILITY_S)
            for receipt in receipts:
                message = sent.get(receipt.text)
                if message is not None and (receipt.sequence, receipt.group) != (message.sequence, message.group):
                    self._fault("sequence", f"{receipt.text} has {receipt.sequence}, not {message.sequence}")

    # -- dead letters -------------------------------------------------------------------------------------------------

    def _check_moves(self) -> None:
        """Check messages that were moved twice to the dead-letter queue; `redrive_faults` finds those in it twice."""
        for message_id, times in self._ledger.moves.items():
            for first, again in pairwise(times):
                if cause := self._causes.move_cause(first):
                    self.duplicates[cause] += 1
                else:
                    before = [_ms(kill - first) for kill in self._ledger.kills_ns]
                    self._fault(
                        "moved again", f"{message_id}, {before} before the crash and {_ms(again - first)} later"
                    )

    # -- notifications ------------------------------------------------------------------------------------------------

    def _check_envelopes(self) -> None:
        """Check the queue subscribed to `news`: it holds every notification at least once, with the published text."""
        receipts = self._ledger.receipts_of(self._resources.news_queue)
        self._check_repeats(receipts, fifo=False)
        published = self._ledger.sent.get(self._resources.news, {})
        messages: dict[str, dict[str, Receipt]] = {}
        for receipt in receipts:
            if receipt.text not in published:
                self._fault("invented", f"{receipt.text[:60]!r} in the queue of news")
            messages.setdefault(receipt.notification, {}).setdefault(receipt.id, receipt)
        said = {receipt.notification: receipt.text for receipt in receipts}
        for message in published.values():
            unasked = sum(1 for notification, text in said.items() if text == message.text) - len(message.ids)
            if unasked > message.unknown_outcomes:
                self._fault("invented", f"{message.text} arrived {unasked} times more than it was published")
            for notification in message.ids:
                if notification not in messages:
                    self._fault("notification lost", f"{message.text} at the queue")
        for notification in self._arrivals.notifications(self._resources.news) - messages.keys():
            self._fault("notification lost", f"{notification} at the queue, although it came to an endpoint")
        began = self._began(self._resources.news)
        for notification, copies in messages.items():
            times = [self._ledger.wall_ns(receipt.sent_ms) for receipt in copies.values()]
            if self._causes.delivers_in_commit and len(times) > 1:
                self._fault("duplicate", f"{notification} is {len(times)} times in the queue")
            else:
                self._check_copies(times, began.get(notification, 0), "the queue", fans_out=False)

    def _check_topic(self, topic: str) -> None:
        messages = self._ledger.of(topic)
        acknowledged = {notification for message in messages for notification in message.ids}
        dead_letters = self._dead_letters(topic)
        arrived = self._arrivals.notifications(topic) | dead_letters.keys()
        began = self._began(topic)
        unasked = len(arrived - acknowledged)
        if unasked > self._ledger.unknown_outcomes(topic):
            self._fault(
                "invented", f"{unasked} notifications of {topic}, {self._ledger.unknown_outcomes(topic)} had no answer"
            )
        self.duplicates[CLIENT_RETRY] += unasked
        for notification in (
            acknowledged | arrived
        ):  # a notification that reached one subscriber was accepted: all get it
            subscribers = self._arrivals.subscribers(topic, notification)
            missing = self._resources.subscribers[topic] - len(
                subscribers.keys() | dead_letters.get(notification, {}).keys()
            )
            if missing:
                self._fault("notification lost", f"{notification} of {topic} at {missing} endpoints")
            for times in subscribers.values():
                self._check_copies(
                    times, began.get(notification, 0), "an endpoint", fans_out=topic == self._resources.wide
                )

    def _began(self, topic: str) -> dict[str, int]:
        """Message id → when its acknowledged publish began, in ns."""
        return {notification: message.began_ns for message in self._ledger.of(topic) for notification in message.ids}

    def _check_copies(self, times_ns: list[int], published_ns: int, where: str, *, fans_out: bool) -> None:
        for first, again in pairwise(sorted(times_ns)):
            before_ns = [kill - first for kill in self._ledger.kills_ns if kill <= again]
            self.repeated_ns = max(self.repeated_ns, *before_ns, 0)
            if cause := self._causes.copy_cause(first, again, published_ns, fans_out=fans_out):
                self.duplicates[cause] += 1
            else:
                kills = [_ms(first - kill) for kill in self._ledger.kills_ns]
                jumps = [_ms(first - jump) for jump in self._ledger.jumps_ns]
                self._fault(
                    "duplicate",
                    f"a notification at {where}, whose first came {kills} after crashes and {jumps} after jumps, its"
                    f" next {_ms(again - first)} later",
                )

    # -- failing endpoints --------------------------------------------------------------------------------------------

    def _dead_letters(self, topic: str) -> dict[str, dict[str, list[int]]]:
        """Message id → subscription ARN → when its dead letters were sent, in ns."""
        failing_endpoints = self._resources.failing_endpoints
        if failing_endpoints is None or topic != failing_endpoints.topic:
            return {}
        found: dict[str, dict[str, int]] = {}
        for receipt in self._ledger.receipts_of(failing_endpoints.undelivered):
            found.setdefault(receipt.notification, {})[receipt.id] = self._ledger.wall_ns(receipt.sent_ms)
        return {notification: {failing_endpoints.doomed: [*copies.values()]} for notification, copies in found.items()}

    def _check_failing_endpoints(self, failing_endpoints: FailingEndpoints) -> None:
        receipts = self._ledger.receipts_of(failing_endpoints.undelivered)
        self._check_repeats(receipts, fifo=False)
        published = self._ledger.sent.get(failing_endpoints.topic, {})
        for text in {receipt.text for receipt in receipts} - published.keys():
            self._fault("invented", f"{text[:60]!r} among the dead letters")
        began = self._began(failing_endpoints.topic)
        for notification, dead_letters in self._dead_letters(failing_endpoints.topic).items():
            for times in dead_letters.values():
                self._check_copies(times, began.get(notification, 0), "the dead-letter queue", fans_out=False)
        for notification, refused in self._arrivals.refused.items():
            accepted = self._arrivals.by_notification.get(notification, {})
            since_ns = began.get(notification, 0)
            self._check_pauses(
                sorted(refused.get(failing_endpoints.failing, []) + accepted.get(failing_endpoints.failing, [])),
                since_ns,
            )
            last = refused.get(failing_endpoints.doomed, []) + accepted.get(failing_endpoints.doomed, [])
            self._check_attempts(notification, last, since_ns)

    def _check_pauses(self, attempts_ns: list[int], published_ns: int) -> None:
        """An attempt earlier than the retry policy allows is a duplicate: the attempt before it was not settled."""
        for first, again in pairwise(attempts_ns):
            if not self._ledger.lease_over(first - NS_PER_S, again, FAILING_PAUSE_S):
                self._check_copies([first, again], published_ns, "an endpoint that fails", fans_out=False)

    def _check_attempts(self, notification: str, attempts_ns: list[int], published_ns: int) -> None:
        """Each attempt beyond the retry policy needs an earlier attempt that was not settled."""
        pairs = pairwise(sorted(attempts_ns))
        excused = [self._causes.copy_cause(first, again, published_ns, fans_out=False) for first, again in pairs]
        if len(attempts_ns) > DOOMED_ATTEMPTS + sum(map(bool, excused)):
            before = [[_ms(kill - first) for first in attempts_ns] for kill in self._ledger.kills_ns]
            self._fault("duplicate", f"{notification} was tried {len(attempts_ns)} times, {before} before the crash")


def _ms(nanoseconds: int) -> str:
    return f"{nanoseconds // NS_PER_MS} ms"
