"""What the journal says a reopened store must hold, may hold and must not hold after a cut at one position."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from cqs.engines.contract import Message, Outcome
from faults.power.journal import Journal, Operation, Put

REMOVED = (Outcome.DONE, Outcome.GONE)


@dataclass(slots=True)
class Expectation:
    known: dict[str, Put] = field(default_factory=dict)  # all that may be there, by id
    certain: set[str] = field(default_factory=set)  # must be there
    gone: set[str] = field(default_factory=set)  # must not be there
    bodies: dict[str, list[bytes]] = field(default_factory=dict)  # allowed ones, where they were changed
    sequences: dict[str, int] = field(default_factory=dict)  # by id, where they were told
    records: dict[str, tuple[int, int]] = field(default_factory=dict)  # control plane: lowest and highest value
    dedup: dict[str, Put] = field(default_factory=dict)  # keys whose first send was acknowledged
    forgotten: dict[str, Put] = field(default_factory=dict)  # keys that a purge has ended
    locks: dict[str, tuple[int, Message]] = field(default_factory=dict)  # FIFO group: until when, the message leased
    pairs: list[tuple[tuple[Put, ...], Message]] = field(default_factory=list)  # unanswered: sends and their delete


def expect(journal: Journal, position: int) -> Expectation:
    operations = journal.until(position)
    found = Expectation()
    _puts(found, operations, position)
    _removals(found, operations, position)
    _purges(found, operations, position)
    _bodies(found, operations, position)
    _records(found, operations, position)
    _locks(found, operations, position)
    _pairs(found, operations, position)
    return found


def _puts(found: Expectation, operations: list[Operation], position: int) -> None:
    for operation in operations:
        for number, put in enumerate(operation.puts):
            original = operation.originals[number]
            if original != put.id:
                found.gone.add(put.id)  # a duplicate
            else:
                found.known[put.id] = put
            if operation.known(position):
                found.certain.add(original)
                found.sequences[original] = operation.sequences[number]
                if put.dedup and original == put.id:
                    found.dedup[put.dedup] = put


def _removals(found: Expectation, operations: list[Operation], position: int) -> None:
    for operation in operations:
        for number, (_, message) in enumerate(operation.removes):
            if not operation.known(position):
                found.certain.discard(message.id)
            elif operation.outcomes[number] in REMOVED:
                found.certain.discard(message.id)
                found.gone.add(message.id)


def _purges(found: Expectation, operations: list[Operation], position: int) -> None:
    for purge in operations:
        if purge.purges is None:
            continue
        for operation in operations:
            ids = [put.id for put in operation.puts if put.queue == purge.purges]
            after = purge.answered is not None and operation.began > purge.answered
            if not after:
                found.certain.difference_update(ids)
            if purge.known(position) and operation.answered is not None and operation.answered <= purge.began:
                found.gone.update(ids)
    _purged_keys(found, operations, position)


def _purged_keys(found: Expectation, operations: list[Operation], position: int) -> None:
    """A key of a queue that is purged counts if it was sent after the last purge, and does not if it was not."""
    purges = {
        operation.purges.id: [purge for purge in operations if purge.purges == operation.purges]
        for operation in operations
        if operation.purges
    }
    for key, put in list(found.dedup.items()):
        of_queue = purges.get(put.queue.id)
        if of_queue is None:
            continue
        del found.dedup[key]
        sends = [operation for operation in operations if any(sent.dedup == key for sent in operation.puts)]
        last = max(sends, key=lambda operation: operation.began)
        if all(send.known(position) for send in sends) and all(purge.known(position) for purge in of_queue):
            if all(_before(purge, first) for purge in of_queue for first in [_original(sends, put)]):
                found.dedup[key] = put
            elif any(_before(last, purge) for purge in of_queue):
                found.forgotten[key] = put


def _original(sends: list[Operation], put: Put) -> Operation:
    return next(operation for operation in sends if put in operation.puts)


def _before(operation: Operation, other: Operation) -> bool:
    return operation.answered is not None and operation.answered <= other.began


def _bodies(found: Expectation, operations: list[Operation], position: int) -> None:
    changes: dict[str, list[tuple[Operation, bytes]]] = {}
    for operation in operations:
        for message, body in operation.replaces:
            if not operation.known(position) or operation.replaced[0] is Outcome.DONE:
                changes.setdefault(message.id, []).append((operation, body))
    for message_id, those in changes.items():
        if message_id not in found.known:
            continue
        last = max((operation.began for operation, _ in those if operation.known(position)), default=-1)
        allowed = [body for operation, body in those if operation.answered is None or operation.answered > last]
        found.bodies[message_id] = allowed if last >= 0 else [*allowed, found.known[message_id].body]


def _records(found: Expectation, operations: list[Operation], position: int) -> None:
    for operation in operations:
        if operation.writes is None:
            continue
        key, value = operation.writes
        low, high = found.records.get(key, (0, 0))
        found.records[key] = (max(low, value) if operation.known(position) else low, max(high, value))


def _locks(found: Expectation, operations: list[Operation], position: int) -> None:
    """Groups whose acknowledged lease nothing has ended, nor given back what stands before it."""
    times = Counter(message.id for operation in operations for message in operation.leases)
    removed = {message.id for operation in operations for _, message in operation.removes}
    given_back = {operation.touches.id for operation in operations if operation.touches is not None}
    for operation in operations:
        open_groups = {message.group for message in operation.leases if message.id in given_back}
        for message in operation.leases:
            held = message.id not in removed and message.group not in open_groups and times[message.id] == 1
            if held and operation.known(position):
                found.locks[message.group] = (operation.leased_until_ms, message)


def _pairs(found: Expectation, operations: list[Operation], position: int) -> None:
    removals = Counter(message.id for operation in operations for _, message in operation.removes)
    stored = {original for operation in operations if operation.known(position) for original in operation.originals}
    purged = {operation.purges for operation in operations}
    for operation in operations:
        if not operation.puts or not operation.removes or operation.known(position):
            continue
        puts = tuple([put for put in operation.puts if put.queue not in purged and not removals[put.id]])
        (_, message), *_ = operation.removes
        # one that is received in the transaction that sends it may be in neither state: nobody was told that it is kept
        if message.id in stored and removals[message.id] == 1 and operation.outcomes == (Outcome.DONE,):
            found.pairs.append((puts, message))
