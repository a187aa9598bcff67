"""Random operations on a queue and its dead-letter queue, and on their models."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cns_common.errors import RequestError
from cqs.engines.contract import Outcome, PeekedMessage
from cqs.messages.receipt_handle import UselessHandle, expired_handle, not_a_handle, unavailable_message
from cqs.queues.model import decode_body
from tests.conformance.model import ModelMessage
from tests.integration.cqs.engines.model.sqs_driven import Queue, Service
from tests.integration.cqs.engines.model.sqs_model import HELD_MS_MAX, PURGE_PAUSE_MS, VisibleQueue
from tests.integration.cqs.sqs import ACCOUNT

EXPIRED_IN_BATCH = "The receipt handle has expired"
GROUPS = st.sampled_from(["a", "b", "c"])
BODIES = st.sampled_from(["one", "two", "three"])
DEDUP_IDS = st.sampled_from(["", "", "k", "l"])
TIMEOUTS_S = st.sampled_from([0, 0, 1, 1, 10, 60, 300])
WAITS_S = st.sampled_from([1, 1, 9, 10, 50, 60, 240, 300])
RECEIVES = st.sampled_from([1, 1, 2, 3, 0])
SELDOM = st.sampled_from([False] * 7 + [True])
BAD_BODY = "\x00"

Entry = tuple[str, str, str, int | None]
"""Body, group, deduplication id, delay (None: the queue's)."""
ENTRIES = st.tuples(
    st.one_of(BODIES, BODIES, BODIES, st.just(BAD_BODY)), GROUPS, DEDUP_IDS, st.sampled_from([None, 0, 10])
)


class Machine(RuleBasedStateMachine):
    """A queue and its dead-letter queue, step by step."""

    def __init__(self, service: Service, kind: str) -> None:
        super().__init__()
        self.clock = service.sqs.clock
        self.fifo, self.fair, self.by_group = kind == "fifo", kind == "fair", False
        name = uuid.uuid4().hex
        suffix = ".fifo" if self.fifo else ""
        self.dead = Queue(service, f"{name}-dead{suffix}", VisibleQueue(self.fifo, fair=self.fair))
        self.source = Queue(service, f"{name}{suffix}", VisibleQueue(self.fifo, fair=self.fair))
        self.moved: set[str] = set()

    @initialize(by_group=st.booleans(), receives=RECEIVES, entries=st.lists(ENTRIES, min_size=2, max_size=6))
    def set_up(self, by_group: bool, receives: int, entries: list[Entry]) -> None:
        if self.fifo and by_group:
            self.by_group = True
            self.source.set(DeduplicationScope="messageGroup")
        self.redrive(receives)
        self._send_batch(self.source, entries)

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def _queue(self, dead: bool) -> Queue:
        return self.dead if dead else self.source

    # -- sending ------------------------------------------------------------------------------------------------------

    @rule(entries=st.lists(ENTRIES, min_size=1, max_size=4), dead=st.sampled_from([False, False, False, True]))
    def send(self, entries: list[Entry], dead: bool) -> None:
        queue = self._queue(dead)
        if len(entries) > 1:
            self._send_batch(queue, entries)
        elif entries[0][0] == BAD_BODY:
            self._refused("InvalidMessageContents", queue, "SendMessage", **self._members(entries[0]))
        else:
            self._follow_send(queue, entries[0], queue("SendMessage", **self._members(entries[0])))

    def _send_batch(self, queue: Queue, entries: list[Entry]) -> None:
        given = [{"Id": str(number), **self._members(entry)} for number, entry in enumerate(entries)]
        answer = queue("SendMessageBatch", Entries=given)
        bad = [str(number) for number, entry in enumerate(entries) if entry[0] == BAD_BODY]
        assert [failure["Id"] for failure in answer["Failed"]] == bad
        assert len(answer["Successful"]) == len(entries) - len(bad)
        for sent in answer["Successful"]:
            self._follow_send(queue, entries[int(sent["Id"])], sent)

    def _members(self, entry: Entry) -> dict[str, Any]:
        body, group, dedup, delay_s = entry
        members: dict[str, Any] = {"MessageBody": body}
        if self.fifo or self.fair:
            members["MessageGroupId"] = group
        if self.fifo and dedup:
            members["MessageDeduplicationId"] = dedup
        if not self.fifo and delay_s is not None:
            members["DelaySeconds"] = delay_s
        return members

    def _follow_send(self, queue: Queue, entry: Entry, sent: dict[str, Any]) -> None:
        body, group, dedup, delay_s = entry
        seen, now_ms = queue.seen, self.now_ms
        assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
        key = dedup or hashlib.sha256(body.encode()).hexdigest()
        if self.by_group and queue is self.source:
            key = f"{group} {key}"
        original = seen.duplicate_of(key, now_ms)
        if original is not None:
            assert (sent["MessageId"], int(sent["SequenceNumber"])) == original
            return
        kept = ModelMessage(
            id=sent["MessageId"],
            sequence=int(sent["SequenceNumber"]) if self.fifo else seen.last_sequence + 1,
            body=body.encode(),
            group=group if self.fifo or self.fair else "",
            born_at_ms=now_ms,
            visible_at_ms=now_ms + 1000 * (queue.delay_s if self.fifo or delay_s is None else delay_s),
        )
        seen.add(kept, key, now_ms)

    # -- receiving ----------------------------------------------------------------------------------------------------

    @rule(
        dead=st.sampled_from([False, False, False, True]),
        want=st.integers(1, 10),
        timeout_s=TIMEOUTS_S,
        attempt_id=st.sampled_from(["", "", "x", "y"]),
        times=st.integers(1, 4),
        wait_s=st.sampled_from([0, 1, 10]),
    )
    def receive(self, dead: bool, want: int, timeout_s: int, attempt_id: str, times: int, wait_s: int) -> None:
        for _ in range(times):
            self._receive(self._queue(dead), want, timeout_s, attempt_id if self.fifo else "")
            self.wait(wait_s)

    def _receive(self, queue: Queue, want: int, timeout_s: int, attempt_id: str) -> None:
        dead = queue is self.dead
        before = set(self.dead.seen.messages)
        members: dict[str, Any] = {"MaxNumberOfMessages": want, "VisibilityTimeout": timeout_s}
        if attempt_id:
            members["ReceiveRequestAttemptId"] = attempt_id
        shown = queue("ReceiveMessage", AttributeNames=["All"], **members)["Messages"]
        given = [queue.seen.as_message(message) for message in shown]
        arrived = {} if dead else {one: peeked for one, peeked in self.dead.peek().items() if one not in before}
        moved = {one: self.source.seen.messages[one] for one in arrived}
        visible_at_ms = self.now_ms + timeout_s * 1000
        queue.seen.check_answer(given, set(moved), want, visible_at_ms, self.now_ms, attempt_id)
        queue.handles += [message["ReceiptHandle"] for message in shown]
        if dead:
            from_source = {m["MessageId"] for m in shown if "DeadLetterQueueSourceArn" in m["Attributes"]}
            assert from_source == {message.id for message in given} & self.moved
        for one, peeked in sorted(arrived.items(), key=lambda pair: pair[1].sequence):
            self._follow_move(moved[one], peeked)

    def _follow_move(self, kept: ModelMessage, peeked: PeekedMessage) -> None:
        """A moved message gets a new sequence number."""
        seen = self.dead.seen
        self.moved.add(kept.id)
        assert decode_body(peeked.body).text.encode() == kept.body
        kept.visible_at_ms, kept.handle = self.now_ms, b""
        kept.sequence = 10**19 + peeked.sequence if self.fifo else seen.last_sequence + 1
        seen.add(kept, kept.id, self.now_ms)

    # -- settling -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.source.handles or self.dead.handles)
    @rule(data=st.data(), dead=st.booleans(), n=st.integers(1, 4))
    def delete(self, data: st.DataObject, dead: bool, n: int) -> None:
        queue = self._queue(dead)
        handles = [self._handle(data, queue) for _ in range(n)]
        if n > 1:
            self._delete_batch(queue, handles)
        else:
            self._delete_one(queue, handles[0])

    def _delete_one(self, queue: Queue, handle: str) -> None:
        fault = self._delete_fault(queue, handle)
        if fault is None:
            assert queue("DeleteMessage", ReceiptHandle=handle) == {}
            self._follow_delete(queue, handle)
        else:
            self._refused(fault, queue, "DeleteMessage", ReceiptHandle=handle)

    def _delete_batch(self, queue: Queue, handles: list[str]) -> None:
        """The entries take effect one by one."""
        faults: dict[str, RequestError] = {}
        for number, handle in enumerate(handles):
            fault = self._delete_fault(queue, handle)
            if fault is None:
                self._follow_delete(queue, handle)
            else:
                faults[str(number)] = fault
        entries = [{"Id": str(number), "ReceiptHandle": handle} for number, handle in enumerate(handles)]
        answer = queue("DeleteMessageBatch", Entries=entries)
        assert {failure["Id"]: failure["Message"] for failure in answer["Failed"]} == {
            number: EXPIRED_IN_BATCH if isinstance(fault, UselessHandle) else fault.message
            for number, fault in faults.items()
        }
        assert len(answer["Successful"]) == len(handles) - len(faults)

    def _delete_fault(self, queue: Queue, handle: str) -> RequestError | None:
        if fault := self._handle_fault(queue, handle):
            return fault
        outcome = queue.seen.outcome(handle.encode(), self.now_ms, older_handles=True)
        return expired_handle(handle) if self.fifo and outcome in (Outcome.STALE, Outcome.EXPIRED) else None

    def _follow_delete(self, queue: Queue, handle: str) -> None:
        if queue.seen.outcome(handle.encode(), self.now_ms, older_handles=True) is Outcome.DONE:
            queue.seen.delete(handle.encode(), self.now_ms)

    @precondition(lambda self: self.source.handles or self.dead.handles)
    @rule(data=st.data(), dead=st.booleans(), timeout_s=st.one_of(TIMEOUTS_S, st.just(HELD_MS_MAX // 1000)))
    def change_visibility(self, data: st.DataObject, dead: bool, timeout_s: int) -> None:
        queue = self._queue(dead)
        handle = self._handle(data, queue)
        members = {"ReceiptHandle": handle, "VisibilityTimeout": timeout_s}
        fault = self._change_fault(queue, handle, timeout_s)
        if fault is None:
            assert queue("ChangeMessageVisibility", **members) == {}
            queue.seen.change(handle.encode(), self.now_ms + timeout_s * 1000, None, self.now_ms)
        else:
            self._refused(fault, queue, "ChangeMessageVisibility", **members)

    def _change_fault(self, queue: Queue, handle: str, timeout_s: int) -> RequestError | str | None:
        if fault := self._handle_fault(queue, handle):
            return fault
        if self.now_ms + timeout_s * 1000 > queue.seen.received_ms[handle.encode()] + HELD_MS_MAX:
            return "InvalidParameterValue"
        outcome = queue.seen.outcome(handle.encode(), self.now_ms, older_handles=True)
        if outcome is Outcome.DONE:
            return None
        return expired_handle(handle) if self.fifo and outcome is not Outcome.GONE else unavailable_message(handle)

    def _handle(self, data: st.DataObject, queue: Queue) -> str:
        """Prefer newer handles; sometimes one of the other queue, or text that is no handle."""
        chance = data.draw(st.integers(0, 11))
        known = {0: [], 1: self._queue(queue is self.source).handles}.get(chance, queue.handles)
        return known[-data.draw(st.integers(1, len(known)))] if known else "garbage"

    def _handle_fault(self, queue: Queue, handle: str) -> RequestError | None:
        if handle == "garbage":
            return not_a_handle(handle)
        if handle in queue.handles:
            return None
        return RequestError("ReceiptHandleIsInvalid", f'The receipt handle "{handle}" is not valid for this queue.')

    # -- the rest -----------------------------------------------------------------------------------------------------

    @rule(seconds=WAITS_S)
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds * 1000)

    @rule(dead=st.sampled_from([False, False, True]), choice=st.integers(0, 5), before=st.booleans())
    def wait_for_an_edge(self, dead: bool, choice: int, before: bool) -> None:
        """Advance to the moment at which something becomes visible or is forgotten, or just before it."""
        edges = self._queue(dead).seen.edges(self.now_ms)
        if edges:
            self.clock.advance(edges[choice % len(edges)] - before - self.now_ms)

    @rule(so=SELDOM, delay_s=st.sampled_from([0, 10, 60]))
    def set_delay(self, so: bool, delay_s: int) -> None:
        if so:
            self.source.set(DelaySeconds=str(delay_s))
            self.source.delay_s = delay_s
            self.source.seen.delay(delay_s * 1000)

    @rule(so=SELDOM, receives=RECEIVES)
    def set_redrive_policy(self, so: bool, receives: int) -> None:
        if so:
            self.redrive(receives)

    def redrive(self, receives: int) -> None:
        arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{self.dead.name}"
        policy = f'{{"deadLetterTargetArn":"{arn}","maxReceiveCount":{receives}}}'
        self.source.set(RedrivePolicy=policy if receives else "")
        self.source.seen.max_receives = receives

    @rule(dead=st.booleans(), so=SELDOM)
    def purge(self, dead: bool, so: bool) -> None:
        queue = self._queue(dead)
        if not so:
            return
        if self.now_ms - queue.seen.purged_ms < PURGE_PAUSE_MS:
            self._refused("PurgeQueueInProgress", queue, "PurgeQueue")
            return
        assert queue("PurgeQueue") == {}
        queue.seen.purge()
        queue.seen.purged_ms = self.now_ms

    @invariant()
    def messages_and_their_numbers_are_the_models(self) -> None:
        for queue in (self.source, self.dead):
            assert sorted(queue.peek()) == queue.seen.ids()
            sqs = queue.service.sqs
            assert queue.service.run(sqs.counts(queue.url)) == queue.seen.counts(self.now_ms)

    def _refused(self, fault: RequestError | str, queue: Queue, action: str, **members: Any) -> None:
        """`fault` may be the code alone."""
        with pytest.raises(RequestError) as caught:
            queue(action, **members)
        seen = caught.value
        expected = fault if isinstance(fault, str) else (fault.code, fault.message)
        assert (seen.code if isinstance(fault, str) else (seen.code, seen.message)) == expected
