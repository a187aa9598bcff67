"""Accounting of the FIFO queue whose messages time out: each is deleted or moved to the dead-letter queue, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from faults.accounting.ledger import NS_PER_S, Ledger, Letter, Receipt
from faults.service.resources import EXPIRING_RECEIVES_MAX, EXPIRING_VISIBILITY_S, RoundResources

POISON_EVERY = 3


def is_poison(text: str) -> bool:
    """Whether consumers cannot cope with a message, and never delete it."""
    return int(text.rpartition("-")[2]) % POISON_EVERY == 0


def worn_faults(resources: RoundResources, ledger: Ledger) -> Iterator[str]:
    sent = ledger.sent.get(resources.expiring, {})
    received, arrived = by_text(ledger.receipts_of(resources.expiring)), by_text(ledger.receipts_of(resources.dead))
    for text in {*received, *arrived} - sent.keys():
        yield f"invented: {text[:60]!r} in the expiring queue"
    for letter in sent.values():
        yield from _letter_faults(letter, received.get(letter.text, []), arrived.get(letter.text, []), ledger)
    for queue in (resources.expiring, resources.dead):
        for group, receipts in groups_of(ledger.receipts_of(queue)).items():
            yield from _order_faults(group, receipts, sent)
    for group, receipts in groups_of(ledger.receipts_of(resources.expiring)).items():
        yield from alone_faults(group, receipts, ledger, EXPIRING_VISIBILITY_S)


def _letter_faults(letter: Letter, received: list[Receipt], arrived: list[Receipt], ledger: Ledger) -> Iterator[str]:
    if {receipt.id for receipt in (*received, *arrived)} - set(letter.ids):
        yield f"invented: {letter.text} under an id of its own"
    deleted = [receipt for receipt in received if receipt.deleted_ns]
    if not deleted and not arrived:
        yield f"lost: {letter.text} was neither deleted nor moved"
    for receipt in deleted:
        if ledger.lease_over(receipt.asked_ns, receipt.deleted_ns, EXPIRING_VISIBILITY_S):
            continue  # it may have been moved by then: a delete of what is gone succeeds
        if any(again.asked_ns > receipt.deleted_ns for again in (*received, *arrived)):
            yield f"came back: {letter.text} after its delete"
    if len(received) > EXPIRING_RECEIVES_MAX:
        yield f"received too often: {letter.text} {len(received)} times"
    yield from _dead_letter_faults(letter, arrived, ledger)


def _dead_letter_faults(letter: Letter, arrived: list[Receipt], ledger: Ledger) -> Iterator[str]:
    if arrived and not arrived[-1].deleted_ns:
        yield f"never deleted: {letter.text} in the dead-letter queue"
    if len({receipt.sequence for receipt in arrived}) > 1:
        yield f"duplicate: {letter.text} was enqueued twice in the dead-letter queue"
    for before, after in pairwise(arrived):
        if 0 < before.deleted_ns < after.asked_ns:
            yield f"came back: {letter.text} after its delete from the dead-letter queue"
        elif not ledger.lease_over(before.asked_ns, after.received_ns):
            yield f"duplicate: {letter.text} in the dead-letter queue"


def _order_faults(group: str, receipts: list[Receipt], sent: dict[str, Letter]) -> Iterator[str]:
    """By first receipts. Some may never be seen: those whose answers a crash cut off until they were moved."""
    first = {receipt.text: receipt for receipt in reversed(receipts)}
    ordered = sorted(first.values(), key=lambda receipt: (receipt.received_ns, receipt.take, receipt.sequence))
    numbers = [sent[receipt.text].number for receipt in ordered if receipt.text in sent]
    for before, after in pairwise(numbers):
        if after < before:
            yield f"order: number {after} of group {group} came after {before}"


def alone_faults(group: str, receipts: list[Receipt], ledger: Ledger, lease_s: float) -> Iterator[str]:
    """While one receive's messages are held, no other receive gets any of their group."""
    held: list[Receipt] = []
    for receipt in receipts:
        held = [one for one in held if _holds(one, receipt, ledger, lease_s)]
        for before in held:
            if before.take != receipt.take and not _began_later(before, receipt, ledger, lease_s):
                yield f"two in flight: {before.text} and {receipt.text} of group {group}, {_under_way(before, receipt)}"
        held.append(receipt)


def _began_later(noted_first: Receipt, noted_last: Receipt, ledger: Ledger, lease_s: float) -> bool:
    """Whether the lease of what was noted last may have been over when the other began: its answer came late."""
    return ledger.lease_over(noted_last.asked_ns, noted_first.received_ns, lease_s)


def _under_way(*receipts: Receipt) -> str:
    begin_ns = receipts[0].asked_ns
    spans = [[(at_ns - begin_ns) / NS_PER_S for at_ns in (one.asked_ns, one.received_ns)] for one in receipts]
    return " and ".join([f"{asked:.3f} to {received:.3f} s" for asked, received in spans])


def _holds(before: Receipt, after: Receipt, ledger: Ledger, lease_s: float) -> bool:
    """A lease begins after it was asked for."""
    deleting = 0 < before.delete_asked_ns <= after.received_ns
    return not deleting and not ledger.lease_over(before.asked_ns, after.received_ns, lease_s)


def echo_faults(letters: Iterable[Letter]) -> Iterator[str]:
    """What was acknowledged and sent once more is answered as it was at first."""
    for letter in letters:
        for echo in letter.echoes:
            if echo != (letter.ids[0], letter.sequence):
                yield f"dedup: {letter.text} is {letter.ids[0]}, {letter.sequence}; sent once more it became {echo}"


def groups_of(receipts: list[Receipt]) -> dict[str, list[Receipt]]:
    groups: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        groups.setdefault(receipt.group, []).append(receipt)
    return groups


def by_text(receipts: Iterable[Receipt]) -> dict[str, list[Receipt]]:
    found: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        found.setdefault(receipt.text, []).append(receipt)
    return found
