"""A process that dies at any statement, conditional writes whose answer is lost, and clocks that are a minute apart."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from cns_common.cassandra.session import Cassandra, Statement
from cns_common.clock import Clock
from cns_common.durations import HOUR_MS
from cns_common.errors import CnsError, OutcomeUnknown, StoreUnavailable
from cqs.engines.contract import Change
from tests.conformance.support import DONE, GONE, HIDE_MS, STALE, QueueFixture, bodies, numbered
from tests.integration.cqs.engines.cassieq.conftest import Processes, engine_of, statements_of
from tests.integration.cqs.engines.machines import wall_clock

WAIT_MS = 30_000  # the default of a queue without `RepairWait`

SIZE = 2
STATEMENTS_MAX = 400
"""More statements than a life has."""
PARTS = 8


class Statements:
    """The statements of one process, of which some fail."""

    def __init__(self, queue: QueueFixture, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent = 0
        self.last = STATEMENTS_MAX
        """The number of the statement at which the process dies, which is run (`runs_last`) or not; later ones are
        not."""
        self.runs_last = True
        self.lost_every = 0
        """One in so many conditional statements is run and its answer is lost; 0: none."""
        self.lost = 0
        self._conditional = 0
        cassandra = engine_of(queue)._monotons._cassandra
        for name in ("run", "run_batch", "run_conditional_batch"):
            monkeypatch.setattr(cassandra, name, self._failing(name, getattr(cassandra, name)))

    @property
    def dead(self) -> bool:
        return self.sent > self.last

    def _failing(self, name: str, run: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def failing(*arguments: Any, **named: Any) -> Any:
            self.sent += 1
            if self.sent > self.last + 1 or (self.sent == self.last + 1 and not self.runs_last):
                raise StoreUnavailable("the process is dead")
            answer = await run(*arguments, **named)
            if self.sent == self.last + 1:
                raise OutcomeUnknown("the process died")
            if name == "run_conditional_batch" or _is_conditional(arguments[0]):
                self._conditional += 1
                if self.lost_every and self._conditional % self.lost_every == 0:
                    self.lost += 1
                    raise OutcomeUnknown("the answer was lost")
            return answer

        return failing


def _is_conditional(statement: Statement | Sequence[Any]) -> bool:
    return isinstance(statement, Statement) and " IF " in statement.cql


class Life:
    """The calls of a process: begun, and answered."""

    def __init__(self, queue: QueueFixture) -> None:
        self.queue = queue
        self.sent: set[bytes] = set()
        self.deleting: set[bytes] = set()
        self.deleted: set[bytes] = set()

    async def live(self) -> None:
        """Send, receive, delete, give back, repair; buckets are left, sealed, passed and removed."""
        queue = self.queue
        await self._send(*numbered(5, b"a"))
        first = await queue.take(4)
        await self._delete(first[1:3])
        if first:
            await queue.engine.change(queue.q, [Change(first[0].handle, queue.now_ms)], queue.now_ms)
        queue.advance(WAIT_MS)
        await engine_of(queue).maintain_queues(100, queue.now_ms)
        await self._delete(await queue.take(3))
        await self._send(*numbered(3, b"b"))
        queue.advance(HIDE_MS)
        await engine_of(queue).maintain_queues(100, queue.now_ms)
        await self._delete(await queue.take(2))

    async def _send(self, *bodies_: bytes) -> None:
        await self.queue.send(*bodies_)
        self.sent |= set(bodies_)

    async def _delete(self, messages: Sequence[Any]) -> None:
        self.deleting |= set(bodies(messages))
        outcomes = await self.queue.delete(*messages)
        self.deleted |= {one.body for one, outcome in zip(messages, outcomes, strict=True) if outcome is DONE}


async def _check(life: Life, heir: QueueFixture) -> None:
    """Whatever was answered is so, and what is left comes back, in time and once."""
    heir.now_ms = life.queue.now_ms
    heir.advance(2 * HIDE_MS)
    await engine_of(heir).maintain_queues(100, heir.now_ms)
    left = bodies(await heir.drain(HOUR_MS))
    assert len(left) == len(set(left)), "a message is there twice"
    assert life.sent - life.deleting <= set(left), "a message was lost"
    assert not life.deleted & set(left), "a deleted message came back"
    heir.advance(WAIT_MS)
    await engine_of(heir).maintain_queues(100, heir.now_ms)
    assert not await heir.take()
    assert sum(await heir.counts()) == len(left)


async def _die_at(processes: Processes, monkeypatch: pytest.MonkeyPatch, number: int, *, runs_last: bool) -> bool:
    """Returns whether the process lived to the end."""
    clock = Clock()
    queue = await processes.start(clock, bucket_size=SIZE)
    with monkeypatch.context() as patch:
        statements = Statements(queue, patch)
        statements.last, statements.runs_last = number, runs_last
        life = Life(queue)
        try:
            await life.live()
        except CnsError:
            assert statements.dead
        heir = await processes.start(clock, like=queue)
        await _check(life, heir)
        return not statements.dead


@pytest.mark.parametrize("runs_last", [True, False])
@pytest.mark.parametrize("number", [2, 14, 29])
async def test_a_process_dies(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, number: int, runs_last: bool
) -> None:
    assert not await _die_at(processes, monkeypatch, number, runs_last=runs_last)


@pytest.mark.extended
@pytest.mark.parametrize("runs_last", [True, False])
@pytest.mark.parametrize("first", range(PARTS))
async def test_a_process_dies_at_any_statement(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, first: int, runs_last: bool
) -> None:
    for number in range(first, STATEMENTS_MAX, PARTS):
        if await _die_at(processes, monkeypatch, number, runs_last=runs_last):
            assert number > 50
            return
    raise AssertionError("a life never ends")


@pytest.mark.parametrize("every", [2, 3])
async def test_lost_answers_of_conditional_writes(
    queue: QueueFixture, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """Each write is applied, and its answer is lost: nothing is delivered twice, and every outcome is right."""
    statements = Statements(queue, monkeypatch)
    statements.lost_every = every
    await queue.send(*numbered(12))
    messages = await queue.drain()
    assert sorted(bodies(messages)) == numbered(12)
    assert {message.deliveries for message in messages} == {1}
    assert await queue.delete(*messages[:6]) == [DONE] * 6
    assert await queue.delete(*messages[:6]) == [GONE] * 6
    for message in messages[6:]:
        assert await queue.hide(message, 0) == DONE
    again = await queue.drain()
    assert sorted(bodies(again)) == sorted(bodies(messages[6:]))
    assert await queue.delete(*messages[6:]) == [STALE] * 6
    assert await queue.delete(*again) == [DONE] * 6
    assert await queue.counts() == (0, 0, 0)
    assert statements.lost > 5


@pytest.mark.parametrize("ahead_s", [60, -60])
async def test_a_minute_apart(processes: Processes, ahead_s: int) -> None:
    """Both follow Cassandra's clock; the one whose machine is wrong sends, deletes and changes, and gives no leases."""
    right = await processes.start(Clock())
    wrong = await processes.start(Clock(wall_ns=wall_clock(ahead_s)), like=right)
    assert abs(wrong.clock.now_ms() - right.clock.now_ms()) < 30_000
    wrong.now_ms, right.now_ms = wrong.clock.now_ms(), right.clock.now_ms()
    await wrong.send(*numbered(9))
    right.advance(1_000)
    held = await right.take()
    assert bodies(held) == numbered(9)
    with pytest.raises(StoreUnavailable, match="Cassandra's"):
        await wrong.take()
    assert await wrong.delete(*held[:5]) == [DONE] * 5
    assert await wrong.engine.change(wrong.q, [Change(held[5].handle, right.now_ms)], right.now_ms) == [DONE]
    assert bodies(await right.take()) == [held[5].body]
    assert await wrong.delete(held[5]) == [STALE]
    assert (await right.counts())[1] == 4


async def test_a_wrong_lease_is_fenced(processes: Processes) -> None:
    """A process that did not notice that its clock is a minute behind gives a lease that has ended for others: the
    message is delivered again, and the first holder's receipt does nothing any more."""
    right = await processes.start(Clock())
    behind = await processes.start(Clock(), like=right)
    behind.now_ms = right.now_ms - 60_000
    await right.send_entries([right.entry(b"one", age_ms=0, delay_ms=-60_000)])
    first = await behind.take_one()
    second = await right.take_one()
    assert (first.deliveries, second.deliveries) == (1, 2)
    assert await behind.delete(first) == [STALE]
    assert await right.delete(second) == [DONE]
    assert await behind.delete(first) == [GONE]


async def test_statements_of_a_message(queue: QueueFixture) -> None:
    """Ten messages cost about as many statements as one."""
    await queue.send(b"warm")
    await queue.delete(*await queue.take())
    before = statements_of(queue)
    await queue.send(*numbered(3))
    sent = statements_of(queue)
    messages = await queue.take(3)
    received = statements_of(queue)
    assert await queue.delete(*messages) == [DONE] * 3
    assert (sent - before, statements_of(queue) - received) == (4, 1)
    assert received - sent <= 10


def test_the_session_has_what_is_counted() -> None:
    assert {"run", "run_batch", "run_conditional_batch"} <= set(vars(Cassandra))
