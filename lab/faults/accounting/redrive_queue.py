"""Accounting of the FIFO queue with a redrive policy: each message is deleted or moved to the dead-letter queue, in
order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from lab.faults.accounting.groups import by_text, exclusivity_faults, groups_of, order_faults
from lab.faults.accounting.ledger import Ledger, Receipt, SentMessage
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
            yield from order_faults(f"group {group}", receipts, sent, has_gaps=True)
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
