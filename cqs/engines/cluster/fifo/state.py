"""The state of a FIFO queue: a pure function of the commands in its log.

It reads no clock, waits for nothing and draws no random number, so processes that apply the same commands have the same
state. The queue's time is the latest time of any command since the last PullBack. If a command's clock is behind it,
its visibility times are shifted by the difference.
"""

from __future__ import annotations

from cqs.engines.cluster.fifo import commands as c
from cqs.engines.cluster.fifo.dedup import DedupRecord, DedupWindow, ReceiveAttempts
from cqs.engines.cluster.fifo.encoding import SnapshotHead, Steps, StoredSnapshot, at_once, encode_steps
from cqs.engines.cluster.fifo.order import MessageOrder, QueuedMessage
from cqs.engines.contract import FIFO_DELAY_MS_MAX, IN_FLIGHT_MAX, SPENT_HIDE_MS, Outcome, RejectedEntry, SentEntry

EXPIRED_MAX = 1_000
"""Expired messages that one receive removes before it returns what it has."""
LEASE_MS_MAX = 12 * 3_600_000


class FifoState:
    def __init__(self) -> None:
        self.generation = 0
        self.dropped = False
        self.now_ms = 0
        self._lag_ms = 0  # how far the command's clock is behind the queue's time
        self.order = MessageOrder()
        self._attempts = ReceiveAttempts()
        self._dedup = DedupWindow()
        self._next_seq = 1
        self._next_lease = 1

    @classmethod
    def dropped_state(cls) -> FifoState:
        state = cls()
        state.dropped = True
        return state

    @property
    def next_seq(self) -> int:
        return self._next_seq

    def originals(self, now_ms: int) -> list[DedupRecord]:
        """The messages of which a duplicate would be found."""
        return self._dedup.known(now_ms)

    def snapshot(self) -> bytes:
        return at_once(self.snapshot_steps())

    def snapshot_steps(self) -> Steps[bytes]:
        """The state must not change before the last step."""
        head = SnapshotHead(
            self.generation, self.dropped, self.now_ms, next_seq=self._next_seq, next_lease=self._next_lease
        )
        return encode_steps(head, list(self.order.messages.values()), self._dedup.all(), self._attempts.all())

    @classmethod
    def from_snapshot(cls, snapshot: bytes) -> FifoState:
        return at_once(cls.from_snapshot_steps(snapshot))

    @classmethod
    def from_snapshot_steps(cls, snapshot: bytes) -> Steps[FifoState]:
        read = StoredSnapshot(snapshot)
        state = cls()
        state.generation, state.dropped, state.now_ms = read.head.generation, read.head.dropped, read.head.now_ms
        state._next_seq, state._next_lease = read.head.next_seq, read.head.next_lease
        for messages in read.message_pages():
            for message in messages:
                state.order.add(message, state.now_ms)
            yield
        for records in read.dedup_pages():
            state._dedup.restore(records)
            yield
        for attempts in read.attempt_pages():
            state._attempts.restore(attempts)
            yield
        return state

    def apply(self, command: c.Command) -> c.Answer:
        if isinstance(command, c.PullBack):
            self._pull_back(command.now_ms)
            return None
        self._lag_ms = max(0, self.now_ms - command.now_ms)
        self.now_ms = max(self.now_ms, command.now_ms)
        self.order.hidden.expire(self.now_ms)
        match command:
            case c.FifoSend():
                return self._send(command)
            case c.Receive():
                return self._receive(command)
            case c.Delete():
                return self._delete(command)
            case c.FifoChange():
                return self._change(command)
            case c.Remove():
                self._remove(command)
            case c.Redelay():
                self._redelay(command.delay_ms)
            case c.Purge():
                self._purge(command.generation)
            case c.FifoDrop():
                self._begin_generation(self.generation)
                self.dropped = True
        return None

    def _purge(self, generation: int) -> None:
        if generation > self.generation:  # else a send began it, and its messages are kept
            self._begin_generation(generation)

    def _begin_generation(self, generation: int) -> None:
        """Start with no messages. Sequence and lease numbers go on rising."""
        self.generation = generation
        self.order, self._dedup, self._attempts = MessageOrder(), DedupWindow(), ReceiveAttempts()

    def _pull_back(self, now_ms: int) -> None:
        """Set the queue's time back.

        A lease given after the time moved forward should be set back with it, one given before should not, and they
        look the same. So a lease is set back only if it is too long to be an earlier one: it may end too late, never
        too early.
        """
        ahead_ms = self.now_ms - now_ms
        if ahead_ms <= 0:
            return
        self.now_ms = now_ms
        for message in self.order.messages.values():
            message.born_at_ms = min(message.born_at_ms, now_ms)
            visible_at_ms = message.visible_at_ms
            if visible_at_ms > now_ms:
                is_kept = message.deliveries > 0 and visible_at_ms <= now_ms + LEASE_MS_MAX
                self.order.reschedule(message, visible_at_ms if is_kept else visible_at_ms - ahead_ms, now_ms)
        self._dedup, self._attempts = self._dedup.end_by(now_ms), self._attempts.end_by(now_ms)

    # -- sending ------------------------------------------------------------------------------------------------------

    def _send(self, command: c.FifoSend) -> c.SendAnswer:
        if self.dropped:
            return c.SendAnswer(self.generation, tuple([RejectedEntry() for _ in command.messages]))
        if command.generation < self.generation:
            return c.SendAnswer(self.generation)
        if command.generation > self.generation:  # another process began a purge and has not appended Purge yet
            self._begin_generation(command.generation)
        return c.SendAnswer(self.generation, tuple([self._enqueue(message) for message in command.messages]))

    def _enqueue(self, new: c.NewFifoMessage) -> SentEntry:
        original = self._dedup.find(new.dedup, self.now_ms) if new.dedup else None
        if original is not None:
            return SentEntry(original.id, original.seq, duplicate=original.location != new.location)
        seq = self._next_seq
        self._next_seq += 1
        if new.dedup:
            self._dedup.add(new.dedup, new.id, new.location, seq, self.now_ms)
        visible_at_ms = new.visible_at_ms + self._lag_ms
        message = QueuedMessage(
            seq, new.id, new.location, new.group, new.born_at_ms, visible_at_ms, new.deliveries, new.first_at_ms
        )
        self.order.add(message, self.now_ms)
        return SentEntry(new.id, seq)

    # -- receiving ----------------------------------------------------------------------------------------------------

    def _receive(self, command: c.Receive) -> c.ReceiveAnswer:
        if self.dropped:
            return c.ReceiveAnswer(dropped=True)
        visible_at_ms = command.visible_at_ms + self._lag_ms
        remembers = command.attempt_id != "" and visible_at_ms > self.now_ms
        if remembers:
            again = self._repeat_attempt(command.attempt_id, visible_at_ms)
            if again is not None:
                return again
        room = IN_FLIGHT_MAX - self.order.hidden.in_flight
        if room <= 0:
            return c.ReceiveAnswer(limit_reached=True)
        lease = self._next_lease
        self._next_lease += 1
        taken = self._lease_due(command, min(command.want, room), lease, visible_at_ms)
        if remembers and taken.messages:
            self._attempts.add(command.attempt_id, lease, tuple([given.seq for given in taken.messages]), self.now_ms)
        return taken

    def _lease_due(self, command: c.Receive, n: int, lease: int, visible_at_ms: int) -> c.ReceiveAnswer:
        messages: list[c.LeasedMessage] = []
        spent: list[c.LeasedMessage] = []
        expired: list[str] = []
        groups: list[str] = []
        # By the command's clock: another process's wrong clock, which the queue's time follows, must expire nothing.
        oldest_ms = command.now_ms - command.retention_ms
        while len(messages) + len(spent) < n and len(expired) < EXPIRED_MAX:
            head = self.order.pop_due_head(self.now_ms)
            if head is None:
                break
            groups.append(head.group)
            if head.lease == lease:
                continue  # received just now with a visibility timeout of 0
            for message in self.order.visible_of_group(head.group, n - len(messages) - len(spent), self.now_ms):
                if message.born_at_ms <= oldest_ms:
                    expired.append(message.location)
                    self.order.remove(message)
                elif 0 < command.max_receives <= message.deliveries:
                    spent.append(self._lease(message, lease, self.now_ms + SPENT_HIDE_MS))
                    break  # the rest of the group waits until the spent message is moved
                else:
                    message.deliveries += 1
                    message.first_at_ms = message.first_at_ms or self.now_ms
                    messages.append(self._lease(message, lease, visible_at_ms))
        for group in groups:
            self.order.requeue_group(group)
        next_due_ms = None if messages or spent else self.order.next_due_ms()
        return c.ReceiveAnswer(tuple(messages), tuple(spent), tuple(expired), next_due_ms, received_at_ms=self.now_ms)

    def _repeat_attempt(self, attempt_id: str, visible_at_ms: int) -> c.ReceiveAnswer | None:
        """Lease the messages of an earlier receive with this attempt id again; None if one was deleted, changed or
        received since."""
        attempt = self._attempts.find(attempt_id, self.now_ms)
        if attempt is None:
            return None
        held = [self.order.messages.get(seq) for seq in attempt.seqs]
        messages = [message for message in held if message is not None and message.lease == attempt.lease]
        if len(messages) < len(held):
            return None
        given = [self._lease(message, attempt.lease, visible_at_ms) for message in messages]
        for group in {message.group for message in messages}:
            self.order.requeue_group(group)
        return c.ReceiveAnswer(tuple(given), received_at_ms=attempt.made_ms)

    def _lease(self, message: QueuedMessage, lease: int, visible_at_ms: int) -> c.LeasedMessage:
        message.lease = lease
        self.order.set_visible_at(message, visible_at_ms, self.now_ms)
        return c.LeasedMessage(
            message.seq,
            lease,
            message.id,
            message.location,
            message.group,
            message.born_at_ms,
            message.deliveries,
            message.first_at_ms,
        )

    def would_return_messages(self, command: c.Receive) -> bool:
        """Whether the command would return messages, new ones or those of a repeated attempt."""
        now_ms = max(self.now_ms, command.now_ms)
        again = self._attempts.find(command.attempt_id, now_ms) if command.attempt_id else None
        return again is not None or self.order.is_due(now_ms)

    # -- settling -----------------------------------------------------------------------------------------------------

    def _delete(self, command: c.Delete) -> c.OutcomeAnswer:
        outcomes, locations = [], []
        for seq, lease in command.keys:
            outcome, message = self._leased(seq, lease)
            outcomes.append(outcome)
            if message is not None:
                locations.append(message.location)
                self.order.remove(message)
        return c.OutcomeAnswer(tuple(outcomes), tuple(locations))

    def _change(self, command: c.FifoChange) -> c.OutcomeAnswer:
        """The answer has the location of the body that is not needed: the old one, or the new one if the change was
        refused."""
        outcome, message = self._leased(*command.key)
        if message is None:
            return c.OutcomeAnswer((outcome,), (command.location,) if command.location else ())
        self._attempts.forget_lease(message.lease)
        if command.visible_at_ms is not None:
            self.order.reschedule(message, command.visible_at_ms + self._lag_ms, self.now_ms)
        if not command.location:
            return c.OutcomeAnswer((outcome,))
        replaced, message.location = message.location, command.location
        return c.OutcomeAnswer((outcome,), (replaced,))

    def _leased(self, seq: int, lease: int) -> tuple[Outcome, QueuedMessage | None]:
        """The message, if `lease` is its newest delivery and has not expired; and the outcome."""
        message = self.order.messages.get(seq)
        if message is None:
            return Outcome.GONE, None
        if lease != message.lease:
            return Outcome.STALE, None
        if message.visible_at_ms <= self.now_ms:
            return Outcome.EXPIRED, None
        return Outcome.DONE, message

    def _remove(self, command: c.Remove) -> None:
        for seq, location in command.messages:
            message = self.order.messages.get(seq)
            if message is not None and message.location == location:
                self.order.remove(message)

    def _redelay(self, delay_ms: int) -> None:
        for message in reversed(self.order.messages.values()):
            if message.born_at_ms <= self.now_ms - FIFO_DELAY_MS_MAX:
                break  # it and all earlier messages are past the longest possible delay
            if not message.deliveries and message.visible_at_ms != message.born_at_ms + delay_ms:
                self.order.reschedule(message, message.born_at_ms + delay_ms, self.now_ms)
