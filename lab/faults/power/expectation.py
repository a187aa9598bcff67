"""Derives from the journal what a reopened store must, may and must not hold after a cut at one position."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from cqs.engines.contract import Message, Outcome
from lab.faults.power.journal import Journal, SentMessage, StoreCall

REMOVED = (Outcome.DONE, Outcome.GONE)


@dataclass(slots=True)
class Expectation:
    possible: dict[str, SentMessage] = field(default_factory=dict)  # by id: may be there
    certain: set[str] = field(default_factory=set)  # must be there
    gone: set[str] = field(default_factory=set)  # must not be there
    bodies: dict[str, list[bytes]] = field(default_factory=dict)  # by id: allowed bodies of changed messages
    sequences: dict[str, int] = field(default_factory=dict)  # by id: acknowledged ones
    records: dict[str, tuple[int, int]] = field(default_factory=dict)  # control plane: lowest and highest value
    dedup: dict[str, SentMessage] = field(default_factory=dict)  # keys whose first send was acknowledged
    forgotten: dict[str, SentMessage] = field(default_factory=dict)  # keys ended by a purge
    locks: dict[str, tuple[int, Message]] = field(default_factory=dict)  # FIFO group: (lease end, leased message)
    pairs: list[tuple[tuple[SentMessage, ...], Message]] = field(
        default_factory=list
    )  # unanswered settlements: sends, delete


def expect(journal: Journal, position: int) -> Expectation:
    calls = journal.until(position)
    found = Expectation()
    _puts(found, calls, position)
    _removals(found, calls, position)
    _purges(found, calls, position)
    _bodies(found, calls, position)
    _records(found, calls, position)
    _locks(found, calls, position)
    _pairs(found, calls, position)
    return found


def _puts(found: Expectation, calls: list[StoreCall], position: int) -> None:
    for call in calls:
        for number, put in enumerate(call.puts):
            original = call.originals[number]
            if original != put.id:
                found.gone.add(put.id)  # a duplicate
            else:
                found.possible[put.id] = put
            if call.is_answered(position):
                found.certain.add(original)
                found.sequences[original] = call.sequences[number]
                if put.dedup and original == put.id:
                    found.dedup[put.dedup] = put


def _removals(found: Expectation, calls: list[StoreCall], position: int) -> None:
    for call in calls:
        for number, (_, message) in enumerate(call.removes):
            if not call.is_answered(position):
                found.certain.discard(message.id)
            elif call.outcomes[number] in REMOVED:
                found.certain.discard(message.id)
                found.gone.add(message.id)


def _purges(found: Expectation, calls: list[StoreCall], position: int) -> None:
    for purge in calls:
        if purge.purges is None:
            continue
        for call in calls:
            ids = [put.id for put in call.puts if put.queue == purge.purges]
            after = purge.answered is not None and call.began > purge.answered
            if not after:
                found.certain.difference_update(ids)
            if purge.is_answered(position) and call.answered is not None and call.answered <= purge.began:
                found.gone.update(ids)
    _purged_keys(found, calls, position)


def _purged_keys(found: Expectation, calls: list[StoreCall], position: int) -> None:
    """Deduplication keys of purged queues: a key counts only if it was sent after the last purge."""
    purges = {
        call.purges.id: [purge for purge in calls if purge.purges == call.purges] for call in calls if call.purges
    }
    for key, put in list(found.dedup.items()):
        of_queue = purges.get(put.queue.id)
        if of_queue is None:
            continue
        del found.dedup[key]
        sends = [call for call in calls if any(sent.dedup == key for sent in call.puts)]
        last = max(sends, key=lambda call: call.began)
        if all(send.is_answered(position) for send in sends) and all(purge.is_answered(position) for purge in of_queue):
            if all(_before(purge, first) for purge in of_queue for first in [_original(sends, put)]):
                found.dedup[key] = put
            elif any(_before(last, purge) for purge in of_queue):
                found.forgotten[key] = put


def _original(sends: list[StoreCall], put: SentMessage) -> StoreCall:
    return next(call for call in sends if put in call.puts)


def _before(call: StoreCall, other: StoreCall) -> bool:
    return call.answered is not None and call.answered <= other.began


def _bodies(found: Expectation, calls: list[StoreCall], position: int) -> None:
    changes: dict[str, list[tuple[StoreCall, bytes]]] = {}
    for call in calls:
        for message, body in call.replaces:
            if not call.is_answered(position) or call.replaced[0] is Outcome.DONE:
                changes.setdefault(message.id, []).append((call, body))
    for message_id, those in changes.items():
        if message_id not in found.possible:
            continue
        last = max((call.began for call, _ in those if call.is_answered(position)), default=-1)
        allowed = [body for call, body in those if call.answered is None or call.answered > last]
        found.bodies[message_id] = allowed if last >= 0 else [*allowed, found.possible[message_id].body]


def _records(found: Expectation, calls: list[StoreCall], position: int) -> None:
    for call in calls:
        if call.writes is None:
            continue
        key, value = call.writes
        low, high = found.records.get(key, (0, 0))
        found.records[key] = (max(low, value) if call.is_answered(position) else low, max(high, value))


def _locks(found: Expectation, calls: list[StoreCall], position: int) -> None:
    """Groups with an acknowledged lease, if no delete or settlement ended it and no change made the group visible."""
    times = Counter(message.id for call in calls for message in call.leases)
    removed = {message.id for call in calls for _, message in call.removes}
    given_back = {call.touches.id for call in calls if call.touches is not None}
    for call in calls:
        open_groups = {message.group for message in call.leases if message.id in given_back}
        for message in call.leases:
            held = message.id not in removed and message.group not in open_groups and times[message.id] == 1
            if held and call.is_answered(position):
                found.locks[message.group] = (call.leased_until_ms, message)


def _pairs(found: Expectation, calls: list[StoreCall], position: int) -> None:
    removals = Counter(message.id for call in calls for _, message in call.removes)
    stored = {original for call in calls if call.is_answered(position) for original in call.originals}
    purged = {call.purges for call in calls}
    for call in calls:
        if not call.puts or not call.removes or call.is_answered(position):
            continue
        puts = tuple([put for put in call.puts if put.queue not in purged and not removals[put.id]])
        (_, message), *_ = call.removes
        # a message received in the transaction that sends it may be in neither state: its send is not acknowledged
        if message.id in stored and removals[message.id] == 1 and call.outcomes == (Outcome.DONE,):
            found.pairs.append((puts, message))
