"""What the journal says a reopened store must hold, may hold and must not hold after a cut at one position."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from cqs.engines.contract import Message, Outcome
from faults.power.journal import Deed, Journal, Put

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
    deeds = journal.until(position)
    found = Expectation()
    _puts(found, deeds, position)
    _removals(found, deeds, position)
    _purges(found, deeds, position)
    _bodies(found, deeds, position)
    _records(found, deeds, position)
    _locks(found, deeds, position)
    _pairs(found, deeds, position)
    return found


def _puts(found: Expectation, deeds: list[Deed], position: int) -> None:
    for deed in deeds:
        for number, put in enumerate(deed.puts):
            original = deed.originals[number]
            if original != put.id:
                found.gone.add(put.id)  # a duplicate
            else:
                found.known[put.id] = put
            if deed.known(position):
                found.certain.add(original)
                found.sequences[original] = deed.sequences[number]
                if put.dedup and original == put.id:
                    found.dedup[put.dedup] = put


def _removals(found: Expectation, deeds: list[Deed], position: int) -> None:
    for deed in deeds:
        for number, (_, message) in enumerate(deed.removes):
            if not deed.known(position):
                found.certain.discard(message.id)
            elif deed.outcomes[number] in REMOVED:
                found.certain.discard(message.id)
                found.gone.add(message.id)


def _purges(found: Expectation, deeds: list[Deed], position: int) -> None:
    for purge in deeds:
        if purge.purges is None:
            continue
        for deed in deeds:
            ids = [put.id for put in deed.puts if put.queue == purge.purges]
            after = purge.answered is not None and deed.began > purge.answered
            if not after:
                found.certain.difference_update(ids)
            if purge.known(position) and deed.answered is not None and deed.answered <= purge.began:
                found.gone.update(ids)
    _purged_keys(found, deeds, position)


def _purged_keys(found: Expectation, deeds: list[Deed], position: int) -> None:
    """A key of a queue that is purged counts if it was sent after the last purge, and does not if it was not."""
    purges = {
        deed.purges.id: [purge for purge in deeds if purge.purges == deed.purges] for deed in deeds if deed.purges
    }
    for key, put in list(found.dedup.items()):
        of_queue = purges.get(put.queue.id)
        if of_queue is None:
            continue
        del found.dedup[key]
        sends = [deed for deed in deeds if any(sent.dedup == key for sent in deed.puts)]
        last = max(sends, key=lambda deed: deed.began)
        if all(send.known(position) for send in sends) and all(purge.known(position) for purge in of_queue):
            if all(_before(purge, first) for purge in of_queue for first in [_original(sends, put)]):
                found.dedup[key] = put
            elif any(_before(last, purge) for purge in of_queue):
                found.forgotten[key] = put


def _original(sends: list[Deed], put: Put) -> Deed:
    return next(deed for deed in sends if put in deed.puts)


def _before(deed: Deed, other: Deed) -> bool:
    return deed.answered is not None and deed.answered <= other.began


def _bodies(found: Expectation, deeds: list[Deed], position: int) -> None:
    changes: dict[str, list[tuple[Deed, bytes]]] = {}
    for deed in deeds:
        for message, body in deed.replaces:
            if not deed.known(position) or deed.replaced[0] is Outcome.DONE:
                changes.setdefault(message.id, []).append((deed, body))
    for message_id, those in changes.items():
        if message_id not in found.known:
            continue
        last = max((deed.began for deed, _ in those if deed.known(position)), default=-1)
        allowed = [body for deed, body in those if deed.answered is None or deed.answered > last]
        found.bodies[message_id] = allowed if last >= 0 else [*allowed, found.known[message_id].body]


def _records(found: Expectation, deeds: list[Deed], position: int) -> None:
    for deed in deeds:
        if deed.writes is None:
            continue
        key, value = deed.writes
        low, high = found.records.get(key, (0, 0))
        found.records[key] = (max(low, value) if deed.known(position) else low, max(high, value))


def _locks(found: Expectation, deeds: list[Deed], position: int) -> None:
    """Groups whose acknowledged lease nothing has ended, nor given back what stands before it."""
    times = Counter(message.id for deed in deeds for message in deed.leases)
    removed = {message.id for deed in deeds for _, message in deed.removes}
    given_back = {deed.touches.id for deed in deeds if deed.touches is not None}
    for deed in deeds:
        open_groups = {message.group for message in deed.leases if message.id in given_back}
        for message in deed.leases:
            held = message.id not in removed and message.group not in open_groups and times[message.id] == 1
            if held and deed.known(position):
                found.locks[message.group] = (deed.leased_until_ms, message)


def _pairs(found: Expectation, deeds: list[Deed], position: int) -> None:
    removals = Counter(message.id for deed in deeds for _, message in deed.removes)
    stored = {original for deed in deeds if deed.known(position) for original in deed.originals}
    purged = {deed.purges for deed in deeds}
    for deed in deeds:
        if not deed.puts or not deed.removes or deed.known(position):
            continue
        puts = tuple([put for put in deed.puts if put.queue not in purged and not removals[put.id]])
        (_, message), *_ = deed.removes
        # one that is received in the transaction that sends it may be in neither state: nobody was told that it is kept
        if message.id in stored and removals[message.id] == 1 and deed.outcomes == (Outcome.DONE,):
            found.pairs.append((puts, message))
