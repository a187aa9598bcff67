"""Accounting of the FIFO queue with a redrive policy: each message is deleted or moved to the dead-letter queue, in
order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from lab.faults.accounting.ledger import NS_PER_S, Ledger, Receipt, SentMessage
from lab.faults.service.resources import REDRIVE_RECEIVES_MAX, REDRIVE_VISIBILITY_S, RoundResources

POISON_EVERY = 3


def is_poison(text: str) -> bool:
    """Whether consumers never delete this message, so that it ends in the dead-letter queue."""
    return int(text.rpartition("-")[2]) % POISON_EVERY == 0


def redrive_faults(resources: RoundResources, ledger: Ledger) -> Iterator[str]:
    sent = ledger.sent.get(resources.redrive, {})
    received, arrived = (
        by_text(ledger.receipts_of(resources.redrive)),
        by_text(ledger.receipts_of(resources.dead_letter_queue)),
    )
    for text in {*received, *arrived} - sent.keys():
        yield f"invented: {text[:60]!r} in the queue with a redrive policy"
    for message in sent.values():
        yield from _message_faults(message, received.get(message.text, []), arrived.get(message.text, []), ledger)
    for queue in (resources.redrive, resources.dead_letter_queue):
        for group, receipts in groups_of(ledger.receipts_of(queue)).items():
            yield from _order_faults(group, receipts, sent)
    for group, receipts in groups_of(ledger.receipts_of(resources.redrive)).items():
        yield from exclusivity_faults(group, receipts, ledger, REDRIVE_VISIBILITY_S)


def _message_faults(
    message: SentMessage, received: list[Receipt], arrived: list[Receipt], ledger: Ledger
) -> Iterator[str]:
    if {receipt.id for receipt in (*received, *arrived)} - set(message.ids):
        yield f"invented: {message.text} under an id of its own"
    deleted = [receipt for receipt in received if receipt.deleted_ns]
    if not deleted and not arrived:
        yield f"lost: {message.text} was neither deleted nor moved"
    for receipt in deleted:
        if ledger.lease_over(receipt.asked_ns, receipt.deleted_ns, REDRIVE_VISIBILITY_S):
            continue  # it may have been moved by then: deleting a message that is gone succeeds
        if any(again.asked_ns > receipt.deleted_ns for again in (*received, *arrived)):
            yield f"came back: {message.text} after its delete"
    if len(received) > REDRIVE_RECEIVES_MAX:
        yield f"received too often: {message.text} {len(received)} times"
    yield from _dead_letter_faults(message, arrived, ledger)


def _dead_letter_faults(message: SentMessage, arrived: list[Receipt], ledger: Ledger) -> Iterator[str]:
    if arrived and not arrived[-1].deleted_ns:
        yield f"never deleted: {message.text} in the dead-letter queue"
    if len({receipt.sequence for receipt in arrived}) > 1:
        yield f"duplicate: {message.text} was enqueued twice in the dead-letter queue"
    for before, after in pairwise(arrived):
        if 0 < before.deleted_ns < after.asked_ns:
            yield f"came back: {message.text} after its delete from the dead-letter queue"
        elif not ledger.lease_over(before.asked_ns, after.received_ns):
            yield f"duplicate: {message.text} in the dead-letter queue"


def _order_faults(group: str, receipts: list[Receipt], sent: dict[str, SentMessage]) -> Iterator[str]:
    """Check the order of first receipts. A message is never seen if crashes cut off each of its receives' answers."""
    numbers = [sent[receipt.text].number for receipt in first_receipts(receipts) if receipt.text in sent]
    for before, after in pairwise(numbers):
        if after < before:
            yield f"order: number {after} of group {group} came after {before}"


def exclusivity_faults(group: str, receipts: list[Receipt], ledger: Ledger, lease_s: float) -> Iterator[str]:
    """While messages of one receive are in flight, no other receive may get any of their group."""
    held: list[Receipt] = []
    for receipt in receipts:
        held = [one for one in held if _holds(one, receipt, ledger, lease_s)]
        for before in held:
            if before.receive_number != receipt.receive_number and not _began_later(before, receipt, ledger, lease_s):
                yield f"two in flight: {before.text} and {receipt.text} of group {group}, {_under_way(before, receipt)}"
        held.append(receipt)


def _began_later(noted_first: Receipt, noted_last: Receipt, ledger: Ledger, lease_s: float) -> bool:
    """Whether the lease noted last may have ended before the other began, because its answer came late."""
    return ledger.lease_over(noted_last.asked_ns, noted_first.received_ns, lease_s)


def _under_way(*receipts: Receipt) -> str:
    begin_ns = receipts[0].asked_ns
    spans = [[(at_ns - begin_ns) / NS_PER_S for at_ns in (one.asked_ns, one.received_ns)] for one in receipts]
    return " and ".join([f"{asked:.3f} to {received:.3f} s" for asked, received in spans])


def _holds(before: Receipt, after: Receipt, ledger: Ledger, lease_s: float) -> bool:
    """Whether `before` is in flight when `after` is received. A lease begins no earlier than its receive."""
    deleting = 0 < before.delete_asked_ns <= after.received_ns
    return not deleting and not ledger.lease_over(before.asked_ns, after.received_ns, lease_s)


def repeat_faults(messages: Iterable[SentMessage]) -> Iterator[str]:
    """A message sent again after its acknowledgement must get the first answer again (deduplication)."""
    for message in messages:
        for repeat in message.repeats:
            if repeat != (message.ids[0], message.sequence):
                yield f"dedup: {message.text} is {message.ids[0]}, {message.sequence}; its repeat became {repeat}"


def groups_of(receipts: list[Receipt]) -> dict[str, list[Receipt]]:
    groups: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        groups.setdefault(receipt.group, []).append(receipt)
    return groups


def first_receipts(receipts: Sequence[Receipt]) -> list[Receipt]:
    """The first receipt of each text, in the order of arrival."""
    first = {receipt.text: receipt for receipt in reversed(receipts)}
    return sorted(first.values(), key=lambda receipt: (receipt.received_ns, receipt.receive_number, receipt.sequence))


def by_text(receipts: Iterable[Receipt]) -> dict[str, list[Receipt]]:
    found: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        found.setdefault(receipt.text, []).append(receipt)
    return found
