"""Accounting of the FIFO topic: every publish is in each of its FIFO queues once, in the order of its group.

Nothing excuses a second copy: what a crash makes the workers send again, the queue knows as a duplicate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from faults.accounting.expiring_queue import alone_faults, by_text, echo_faults, groups_of
from faults.accounting.ledger import Ledger, Letter, Receipt
from faults.service.resources import VISIBILITY_S, RoundResources

Letters = Mapping[str, Letter]


def ordered_faults(resources: RoundResources, ledger: Ledger) -> Iterator[str]:
    sent = ledger.sent.get(resources.ordered, {})
    yield from echo_faults(sent.values())
    yield from _told_faults(sent)
    for queue in resources.ordered_queues:
        due = {text: letter for text, letter in sent.items() if queue != resources.in_part or letter.is_in_part}
        receipts = ledger.receipts_of(queue)
        yield from _text_faults(queue, due, receipts)
        for group, of_group in groups_of(receipts).items():
            yield from _order_faults(f"{group} in {queue}", of_group, due)
            yield from alone_faults(group, of_group, ledger, VISIBILITY_S)


def _told_faults(sent: Letters) -> Iterator[str]:
    """A group has one publisher, which waits for its answers."""
    told: dict[str, list[Letter]] = {}
    for letter in sent.values():
        if letter.ids:
            told.setdefault(letter.group, []).append(letter)
    for of_group in told.values():
        for before, after in pairwise(of_group):
            if after.sequence <= before.sequence:
                yield f"sequence: {after.text} was told {after.sequence}, {before.text} before it {before.sequence}"


def _text_faults(queue: str, due: Letters, receipts: Sequence[Receipt]) -> Iterator[str]:
    received = by_text(receipts)
    for text in received.keys() - due.keys():
        yield f"invented: {text[:60]!r} in {queue}"
    for letter in due.values():
        if letter.ids and letter.text not in received:
            yield f"notification lost: {letter.text} at {queue}"
        yield from _copy_faults(queue, received.get(letter.text, []))
        for receipt in received.get(letter.text, []):
            yield from _receipt_faults(letter, receipt)


def _copy_faults(queue: str, receipts: Sequence[Receipt]) -> Iterator[str]:
    copies = {receipt.id: receipt for receipt in receipts}
    for before, after in pairwise(sorted(copies.values(), key=lambda receipt: receipt.sequence)):
        yield f"duplicate: {after.text} was enqueued twice in {queue}, {after.sent_ms - before.sent_ms} ms apart"


def _receipt_faults(letter: Letter, receipt: Receipt) -> Iterator[str]:
    if receipt.group != letter.group:
        yield f"order: {letter.text} came in the group {receipt.group!r}"
    if not receipt.notification:
        return  # raw: it says no more
    if letter.ids and receipt.notification != letter.ids[0]:
        yield f"invented: {letter.text} as notification {receipt.notification}"
    if letter.ids and receipt.published != letter.sequence:
        yield f"sequence: {letter.text} says {receipt.published}, {letter.sequence} was told"


def _order_faults(group: str, receipts: Sequence[Receipt], due: Letters) -> Iterator[str]:
    """By first receipts: nothing may be left out, not even for a while."""
    first = {receipt.text: receipt for receipt in reversed(receipts)}
    ordered = sorted(first.values(), key=lambda receipt: (receipt.received_ns, receipt.take, receipt.sequence))
    numbers = [due[receipt.text].number for receipt in ordered if receipt.text in due]
    awaited = [letter.number for letter in due.values() if letter.group == receipts[0].group]
    for number, expected in zip(numbers, awaited, strict=False):  # what has still to come is lost, if it does not
        if number != expected:
            yield f"order: number {number} of group {group} came in the place of {expected}"
            break
    for before, after in pairwise(ordered):
        if after.sequence <= before.sequence:
            yield f"sequence: {after.text} is {after.sequence} in group {group}, after {before.sequence}"
