"""Checks of FIFO groups: their order, and that one receive at a time holds messages of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from lab.faults.accounting.ledger import NS_PER_S, Ledger, Receipt, SentMessage, grouped


def order_faults(
    where: str, receipts: Sequence[Receipt], sent: Mapping[str, SentMessage], *, has_gaps: bool = False
) -> Iterator[str]:
    """Check the order of first receipts of a group: no message may be skipped, not even for a while, unless `has_gaps`:
    crashes may cut off each of the answers in which a message was, before it is moved."""
    ordered = first_receipts(receipts)
    numbers = [sent[receipt.text].number for receipt in ordered if receipt.text in sent]
    awaited = [message.number for message in sent.values() if message.group == receipts[0].group]
    for number, expected in zip(numbers, sorted(numbers) if has_gaps else awaited, strict=False):
        if number != expected:  # a missing tail is reported as lost
            yield f"order: number {number} of {where} came in the place of {expected}"
            break
    for before, after in pairwise([] if has_gaps else ordered):
        if after.sequence <= before.sequence:
            yield f"sequence: {after.text} is {after.sequence} in {where}, after {before.sequence}"


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
    return grouped(receipts, lambda receipt: receipt.group)


def first_receipts(receipts: Sequence[Receipt]) -> list[Receipt]:
    """The first receipt of each text, in the order of arrival."""
    first = {receipt.text: receipt for receipt in reversed(receipts)}
    return sorted(first.values(), key=lambda receipt: (receipt.received_ns, receipt.receive_number, receipt.sequence))


def by_text(receipts: Iterable[Receipt]) -> dict[str, list[Receipt]]:
    return grouped(receipts, lambda receipt: receipt.text)
