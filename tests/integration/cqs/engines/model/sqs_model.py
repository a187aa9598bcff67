"""A model of a queue as users of the API see it: the engine's model, and moves to the dead-letter queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cqs.engines.contract import Message, ReceiveResult
from tests.conformance.model import Model, ModelMessage

PURGE_PAUSE_MS = 60_000
HELD_MS_MAX = 43_200_000
"""The longest time from a receive to a visibility timeout that its handle can set."""


@dataclass(slots=True)
class VisibleQueue(Model):
    """A queue as its users see it. Handles are receipt handles."""

    purged_ms: int = -PURGE_PAUSE_MS
    received_ms: dict[bytes, int] = field(default_factory=dict)
    """When each handle was given."""

    def as_message(self, shown: dict[str, Any]) -> Message:
        """A message in a response that has all attributes. Standard queues show no sequence number."""
        attributes: dict[str, str] = shown["Attributes"]
        kept = self.messages[shown["MessageId"]]
        return Message(
            shown["MessageId"],
            shown["ReceiptHandle"].encode(),
            shown["Body"].encode(),
            int(attributes["SequenceNumber"]) if self.fifo else kept.sequence,
            int(attributes["ApproximateReceiveCount"]),
            int(attributes["ApproximateFirstReceiveTimestamp"]),
            int(attributes["SentTimestamp"]),
            attributes.get("MessageGroupId", ""),
        )

    def delay(self, delay_ms: int) -> None:
        """A FIFO queue's new delay applies to messages that were never received."""
        for kept in self.messages.values():
            if self.fifo and not kept.deliveries:
                kept.visible_at_ms = kept.born_at_ms + delay_ms

    def edges(self, now_ms: int) -> list[int]:
        """The times at which something changes without a call."""
        times = {kept.visible_at_ms for kept in self.messages.values()}
        times |= {until_ms for until_ms, _, _ in self.dedup.values()}
        times |= {attempt.until_ms for attempt in self.attempts.values()}
        return sorted(ms for ms in times if ms > now_ms)

    def check_answer(
        self, given: Sequence[Message], moved: set[str], want: int, visible_at_ms: int, now_ms: int, attempt_id: str
    ) -> None:
        """Check a receive that returned `given` and moved messages to the dead-letter queue."""
        if self.repeats(attempt_id, visible_at_ms, now_ms) is not None:
            assert not moved
            self.check_received(ReceiveResult(tuple(given)), want, visible_at_ms, now_ms, attempt_id)
            return
        # after a move the service receives again, unless that would return `given` again or hit a group that it locks
        whole = not moved or (visible_at_ms > now_ms and not self.fifo)
        (self._check_fifo if self.fifo else self._check_standard)(given, moved, want, now_ms, whole=whole)
        for message_id in moved:
            del self.messages[message_id]
        self._follow(ReceiveResult(tuple(given)), visible_at_ms, now_ms)
        self.received_ms |= {message.handle: now_ms for message in given}
        if attempt_id and given and visible_at_ms > now_ms:
            self.remember(attempt_id, given, now_ms)

    def _check_standard(
        self, given: Sequence[Message], moved: set[str], want: int, now_ms: int, *, whole: bool
    ) -> None:
        visible = [kept for (kept,) in self.available(now_ms)]
        fresh = {kept.id for kept in visible if not self.is_spent(kept)}
        spent = {kept.id for kept in visible if self.is_spent(kept)}
        assert moved <= spent, "only spent messages are moved"
        self._check_number([message.id for message in given], fresh, want, whole=whole)
        if len(given) < want and whole:
            assert moved == spent
        self._check_oldest({message.id for message in given}, [kept for kept in visible if kept.id in fresh], now_ms)

    def _check_fifo(self, given: Sequence[Message], moved: set[str], want: int, now_ms: int, *, whole: bool) -> None:
        runs = [Run.of(self, group, now_ms) for group in self.groups()]
        self._check_number(
            [message.id for message in given], {one for run in runs for one in run.fresh}, want, whole=whole
        )
        for run in runs:
            ours = [message.id for message in given if message.id in run.fresh]
            assert ours == run.fresh[: len(ours)], "a group is received from its front, in order, without gaps"
            gone = moved & {*run.before, *run.after}
            if ours or (len(given) < want and whole):
                assert gone >= set(run.before), "nothing overtakes a spent message"
            assert ours == run.fresh or not gone & set(run.after), "no message is moved from behind one that stays"
            moved = moved - gone
        assert not moved, "only spent messages are moved"

    @staticmethod
    def _check_number(given: list[str], fresh: set[str], want: int, *, whole: bool) -> None:
        assert len(set(given)) == len(given), "no message comes twice in one answer"
        assert set(given) <= fresh, "received messages are visible and not spent"
        most = min(want, len(fresh))
        assert most >= len(given) >= (most if whole else min(most, 1))


@dataclass(slots=True)
class Run:
    """Ids of a FIFO group: spent messages first, those that can be returned now, and the spent one that ends them."""

    before: list[str]
    fresh: list[str]
    after: list[str]

    @staticmethod
    def of(model: VisibleQueue, group: list[ModelMessage], now_ms: int) -> Run:
        run = Run([], [], [])
        for message in group:
            if message.hidden(now_ms):
                break
            if not model.is_spent(message):
                run.fresh.append(message.id)
            elif run.fresh:
                run.after.append(message.id)
                break
            else:
                run.before.append(message.id)
        return run
