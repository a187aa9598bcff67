"""A FIFO queue as all its processes see it: what the commands of its log make of it, and nothing else.

Nothing here asks for the time, waits, or draws a number: two processes that apply the same commands are in the same
state. The queue's own time is the latest that any command brought; for whoever's clock is behind that, the time that
something is to be hidden counts from then.
"""

from __future__ import annotations

import msgspec

from cns_common.errors import StoreUnavailable
from cqs.engines.cluster.fifo import commands as c
from cqs.engines.cluster.fifo.dedup import Attempt, Attempts, Original, Originals
from cqs.engines.cluster.fifo.order import Kept, Order
from cqs.engines.contract import FIFO_DELAY_MS_MAX, IN_FLIGHT_MAX, SPENT_HIDE_MS, Outcome, RejectedEntry, SentEntry

FORM = 1
"""Of commands and images, and of what commands do. A process that knows only an older one must not guess."""
EXPIRED_MAX = 1_000
"""Messages past their retention that one receive removes before it answers with what it has."""


class _Image(msgspec.Struct, array_like=True):
    """A state, written down. What is not here follows from it."""

    form: int
    generation: int
    dropped: bool
    now_ms: int
    next_seq: int
    next_lease: int
    kept: list[Kept]
    originals: list[Original]
    attempts: list[Attempt]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Image).decode


def check_form(form: int) -> None:
    if form > FORM:
        raise StoreUnavailable("a FIFO queue's log was written by a newer version of this program")


class State:
    def __init__(self) -> None:
        self.generation = 0
        self.dropped = False
        self.now_ms = 0
        self._lag_ms = 0  # of the clock that the command came from
        self.order = Order()
        self._attempts = Attempts()
        self._originals = Originals()
        self._next_seq = 1
        self._next_lease = 1

    @classmethod
    def dropped_one(cls) -> State:
        state = cls()
        state.dropped = True
        return state

    def image(self) -> bytes:
        return _encode(
            _Image(
                FORM,
                self.generation,
                self.dropped,
                self.now_ms,
                self._next_seq,
                self._next_lease,
                list(self.order.kept.values()),
                self._originals.all(),
                self._attempts.all(),
            )
        )

    @classmethod
    def of(cls, image: bytes) -> State:
        read = _decode(image)
        check_form(read.form)
        state = cls()
        state.generation, state.dropped, state.now_ms = read.generation, read.dropped, read.now_ms
        state._next_seq, state._next_lease = read.next_seq, read.next_lease
        state.order = Order(read.kept, read.now_ms)
        state._originals, state._attempts = Originals(read.originals), Attempts(read.attempts)
        return state

    def apply(self, command: c.Command) -> c.Answer:
        self._lag_ms = max(0, self.now_ms - command.now_ms)
        self.now_ms = max(self.now_ms, command.now_ms)
        self.order.hidden.end(self.now_ms)
        match command:
            case c.Send():
                return self._send(command)
            case c.Receive():
                return self._receive(command)
            case c.Delete():
                return self._delete(command)
            case c.Change():
                return self._change(command)
            case c.Remove():
                self._remove(command)
            case c.Redelay():
                self._redelay(command.delay_ms)
            case c.Purge():
                if command.generation > self.generation:  # else it was begun by a send, and more was sent since
                    self._begin(command.generation)
            case c.Drop():
                self._begin(self.generation)
                self.dropped = True
        return None

    def _begin(self, generation: int) -> None:
        """Nothing of before is there any more; numbers go on rising."""
        self.generation = generation
        self.order, self._originals, self._attempts = Order(), Originals(), Attempts()

    # -- sending ------------------------------------------------------------------------------------------------------

    def _send(self, command: c.Send) -> c.Accepted:
        if self.dropped:
            return c.Accepted(self.generation, tuple([RejectedEntry() for _ in command.messages]))
        if command.generation < self.generation:
            return c.Accepted(self.generation)
        if command.generation > self.generation:  # a purge was begun by who has not said so yet
            self._begin(command.generation)
        return c.Accepted(self.generation, tuple([self._accept(message) for message in command.messages]))

    def _accept(self, new: c.NewMessage) -> SentEntry:
        original = self._originals.find(new.dedup, self.now_ms) if new.dedup else None
        if original is not None:
            return SentEntry(original.id, original.seq, duplicate=original.place != new.place)
        seq = self._next_seq
        self._next_seq += 1
        if new.dedup:
            self._originals.add(new.dedup, new.id, new.place, seq, self.now_ms)
        visible_at_ms = new.visible_at_ms + self._lag_ms
        kept = Kept(seq, new.id, new.place, new.group, new.born_at_ms, visible_at_ms, new.deliveries, new.first_at_ms)
        self.order.add(kept, self.now_ms)
        return SentEntry(new.id, seq)

    # -- receiving ----------------------------------------------------------------------------------------------------

    def _receive(self, command: c.Receive) -> c.Taken:
        if self.dropped:
            return c.Taken(dropped=True)
        visible_at_ms = command.visible_at_ms + self._lag_ms
        remembers = command.attempt_id != "" and visible_at_ms > self.now_ms
        if remembers:
            again = self._receive_again(command.attempt_id, visible_at_ms)
            if again is not None:
                return again
        room = IN_FLIGHT_MAX - self.order.hidden.in_flight
        if room <= 0:
            return c.Taken(limit_reached=True)
        lease = self._next_lease
        self._next_lease += 1
        taken = self._take(command, min(command.want, room), lease, visible_at_ms)
        if remembers and taken.messages:
            self._attempts.add(command.attempt_id, lease, tuple([given.seq for given in taken.messages]), self.now_ms)
        return taken

    def _take(self, command: c.Receive, n: int, lease: int, visible_at_ms: int) -> c.Taken:
        messages: list[c.Given] = []
        spent: list[c.Given] = []
        expired: list[str] = []
        groups: list[str] = []
        oldest_ms = command.now_ms - command.retention_ms  # by the caller's clock: one that was wrong ends no messages
        while len(messages) + len(spent) < n and len(expired) < EXPIRED_MAX:
            head = self.order.take_due(self.now_ms)
            if head is None:
                break
            groups.append(head.group)
            if head.lease == lease:
                continue  # it stays visible: it was to be hidden for no time at all
            for kept in self.order.visible_of(head.group, n - len(messages) - len(spent), self.now_ms):
                if kept.born_at_ms <= oldest_ms:
                    expired.append(kept.place)
                    self.order.remove(kept)
                elif 0 < command.max_receives <= kept.deliveries:
                    spent.append(self._lease(kept, lease, self.now_ms + SPENT_HIDE_MS))
                    break  # what follows it waits until it is moved
                else:
                    kept.deliveries += 1
                    kept.first_at_ms = kept.first_at_ms or self.now_ms
                    messages.append(self._lease(kept, lease, visible_at_ms))
        for group in groups:
            self.order.put_back(group)
        next_due_ms = None if messages or spent else self.order.next_due_ms()
        return c.Taken(tuple(messages), tuple(spent), tuple(expired), next_due_ms, received_at_ms=self.now_ms)

    def _receive_again(self, attempt_id: str, visible_at_ms: int) -> c.Taken | None:
        """The messages an earlier receive with this attempt id got, if none was deleted, changed or received since."""
        attempt = self._attempts.find(attempt_id, self.now_ms)
        if attempt is None:
            return None
        held = [self.order.kept.get(seq) for seq in attempt.seqs]
        messages = [kept for kept in held if kept is not None and kept.lease == attempt.lease]
        if len(messages) < len(held):
            return None
        given = [self._lease(kept, attempt.lease, visible_at_ms) for kept in messages]
        for group in {kept.group for kept in messages}:
            self.order.put_back(group)
        return c.Taken(tuple(given), received_at_ms=attempt.made_ms)

    def _lease(self, kept: Kept, lease: int, visible_at_ms: int) -> c.Given:
        kept.lease = lease
        self.order.hide(kept, visible_at_ms, self.now_ms)
        return c.Given(
            kept.seq, lease, kept.id, kept.place, kept.group, kept.born_at_ms, kept.deliveries, kept.first_at_ms
        )

    def has_something(self, command: c.Receive) -> bool:
        """Whether this receive would get messages, now or again."""
        now_ms = max(self.now_ms, command.now_ms)
        again = self._attempts.find(command.attempt_id, now_ms) if command.attempt_id else None
        return again is not None or self.order.is_due(now_ms)

    # -- holding ------------------------------------------------------------------------------------------------------

    def _delete(self, command: c.Delete) -> c.Done:
        outcomes, places = [], []
        for seq, lease in command.keys:
            outcome, kept = self._held(seq, lease)
            outcomes.append(outcome)
            if kept is not None:
                places.append(kept.place)
                self.order.remove(kept)
        return c.Done(tuple(outcomes), tuple(places))

    def _change(self, command: c.Change) -> c.Done:
        """A body that is not used any more is the old one, or the new one when the change was refused."""
        outcome, kept = self._held(*command.key)
        if kept is None:
            return c.Done((outcome,), (command.place,) if command.place else ())
        self._attempts.forget_lease(kept.lease)
        if command.visible_at_ms is not None:
            self.order.show(kept, command.visible_at_ms + self._lag_ms, self.now_ms)
        if not command.place:
            return c.Done((outcome,))
        replaced, kept.place = kept.place, command.place
        return c.Done((outcome,), (replaced,))

    def _held(self, seq: int, lease: int) -> tuple[Outcome, Kept | None]:
        """The message, if `lease` is its newest delivery and not over."""
        kept = self.order.kept.get(seq)
        if kept is None:
            return Outcome.GONE, None
        if lease != kept.lease:
            return Outcome.STALE, None
        if kept.visible_at_ms <= self.now_ms:
            return Outcome.EXPIRED, None
        return Outcome.DONE, kept

    def _remove(self, command: c.Remove) -> None:
        for seq, place in command.messages:
            kept = self.order.kept.get(seq)
            if kept is not None and kept.place == place:
                self.order.remove(kept)

    def _redelay(self, delay_ms: int) -> None:
        for kept in reversed(self.order.kept.values()):
            if kept.born_at_ms <= self.now_ms - FIFO_DELAY_MS_MAX:
                break  # it was sent before any delay that can be now
            if not kept.deliveries and kept.visible_at_ms != kept.born_at_ms + delay_ms:
                self.order.show(kept, kept.born_at_ms + delay_ms, self.now_ms)
