"""Accounting of the FIFO topic: every publish is in each of its FIFO queues once, in the order of its group.

Nothing excuses a second copy: when workers send again after a crash, the queue deduplicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from lab.faults.accounting.groups import by_text, exclusivity_faults, groups_of, order_faults, repeat_faults
from lab.faults.accounting.ledger import Ledger, Receipt, SentMessage, grouped
from lab.faults.service.resources import VISIBILITY_S, RoundResources

SentMessages = Mapping[str, SentMessage]


def ordered_faults(resources: RoundResources, ledger: Ledger) -> Iterator[str]:
    sent = ledger.sent.get(resources.ordered, {})
    yield from repeat_faults(sent.values())
    yield from _answer_faults(sent)
    for queue in resources.ordered_queues:
        due = {text: message for text, message in sent.items() if queue != resources.in_part or message.is_in_part}
        receipts = ledger.receipts_of(queue)
        yield from _text_faults(queue, due, receipts)
        for group, of_group in groups_of(receipts).items():
            yield from order_faults(f"group {group} in {queue}", of_group, due)
            yield from exclusivity_faults(group, of_group, ledger, VISIBILITY_S)


def _answer_faults(sent: SentMessages) -> Iterator[str]:
    """Acknowledged sequence numbers must rise: a group has one publisher, which waits for each answer."""
    told = [message for message in sent.values() if message.ids]
    for of_group in grouped(told, lambda message: message.group).values():
        for before, after in pairwise(of_group):
            if after.sequence <= before.sequence:
                yield f"sequence: {after.text} got {after.sequence}, {before.text} before it got {before.sequence}"


def _text_faults(queue: str, due: SentMessages, receipts: Sequence[Receipt]) -> Iterator[str]:
    received = by_text(receipts)
    for text in received.keys() - due.keys():
        yield f"invented: {text[:60]!r} in {queue}"
    for message in due.values():
        if message.ids and message.text not in received:
            yield f"notification lost: {message.text} at {queue}"
        yield from _copy_faults(queue, received.get(message.text, []))
        for receipt in received.get(message.text, []):
            yield from _receipt_faults(message, receipt)


def _copy_faults(queue: str, receipts: Sequence[Receipt]) -> Iterator[str]:
    copies = {receipt.id: receipt for receipt in receipts}
    for before, after in pairwise(sorted(copies.values(), key=lambda receipt: receipt.sequence)):
        yield f"duplicate: {after.text} was enqueued twice in {queue}, {after.sent_ms - before.sent_ms} ms apart"


def _receipt_faults(message: SentMessage, receipt: Receipt) -> Iterator[str]:
    if receipt.group != message.group:
        yield f"order: {message.text} came in the group {receipt.group!r}"
    if not receipt.notification:
        return  # raw: no envelope to check
    if message.ids and receipt.notification != message.ids[0]:
        yield f"invented: {message.text} as notification {receipt.notification}"
    if message.ids and receipt.published != message.sequence:
        yield f"sequence: {message.text} has {receipt.published}, {message.sequence} was acknowledged"
