"""Random sequences of calls: the engine must behave as the model does."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace

from cns_common.clock import Clock
from cqs.engines.contract import Change, Outcome, SentEntry
from tests.conformance.drivers import DRIVERS, Driver
from tests.conformance.model import Model, ModelMessage
from tests.conformance.support import QueueFixture
from tests.marks import examples

EXAMPLES = 30
EXAMPLES_OVER_NETWORK = 10
STEPS = 40
SMALL_PIPES = [{"PipeSize": "2", "MaxPopWidth": "1000"}, {"PipeSize": "3", "StrictFifo": "locked"}]

GROUPS = st.sampled_from(["", "a", "b", "c"])
HIDES_MS = st.sampled_from([0, 1, 1_000, 10_000, 600_000])
WAITS_MS = st.sampled_from([1, 999, 1_000, 10_000, 30_000, 299_999, 300_000])
KEYS = st.sampled_from(["", "", "k", "l", "m"])


class Machine(RuleBasedStateMachine):
    """One queue and its model, step by step. The engine stays open for all examples."""

    def __init__(self, runner: asyncio.Runner, driver: Driver, fifo: bool, max_receives: int) -> None:
        super().__init__()
        self.run = runner.run
        self.driver = driver
        self.queue = QueueFixture(driver.engine, driver.clock, fifo=fifo, max_receives=max_receives)
        self.queue.set(retention_ms=14 * 86_400_000)
        self.model = Model(fifo, max_receives, DRIVERS[driver.name].fair)
        self.handles: list[bytes] = []

    @rule(group=GROUPS, key=KEYS, n=st.integers(1, 4), delay_ms=st.sampled_from([0, 0, 0, 1_000, 20_000]))
    def send(self, group: str, key: str, n: int, delay_ms: int) -> None:
        queue, model = self.queue, self.model
        entries = [queue.entry(uuid.uuid4().bytes, group=group, dedup=key, delay_ms=delay_ms) for _ in range(n)]
        for entry, sent in zip(entries, self.run(queue.send_entries(entries)), strict=True):
            original = model.duplicate_of(key, queue.now_ms)
            if original is not None:
                assert sent == SentEntry(*original, True)
                continue
            assert isinstance(sent, SentEntry)
            assert sent == SentEntry(entry.id, sent.sequence)
            kept = ModelMessage(
                id=entry.id,
                sequence=sent.sequence,
                body=entry.body,
                group=group,
                born_at_ms=entry.born_at_ms,
                visible_at_ms=entry.visible_at_ms,
            )
            model.add(kept, key, queue.now_ms)

    @rule(want=st.integers(1, 6), hide_ms=HIDES_MS, attempt_id=st.sampled_from(["", "", "x", "y"]))
    def receive(self, want: int, hide_ms: int, attempt_id: str) -> None:
        queue = self.queue
        attempt_id = attempt_id if queue.q.fifo else ""
        received = self.run(queue.receive(want, hide_ms, attempt_id))
        self.model.check_received(received, want, queue.now_ms + hide_ms, queue.now_ms, attempt_id)
        self.handles += [message.handle for message in (*received.messages, *received.spent)]

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), older=st.booleans())
    def delete(self, data: st.DataObject, older: bool) -> None:
        handle, q = self._handle(data), replace(self.queue.q, older_handles=older)
        expected = self.model.outcome(handle, self.queue.now_ms, older_handles=older)
        assert self.run(self.queue.engine.delete(q, [handle], self.queue.now_ms)) == [expected]
        if expected is Outcome.DONE:
            self.model.delete(handle, self.queue.now_ms)

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), hide_ms=st.none() | HIDES_MS, body=st.none() | st.binary(max_size=9), older=st.booleans())
    def change(self, data: st.DataObject, hide_ms: int | None, body: bytes | None, older: bool) -> None:
        handle, q = self._handle(data), replace(self.queue.q, older_handles=older)
        expected = self.model.outcome(handle, self.queue.now_ms, older_handles=older and body is None)
        visible_at_ms = None if hide_ms is None else self.queue.now_ms + hide_ms
        changes = [Change(handle, visible_at_ms, body)]
        assert self.run(self.queue.engine.change(q, changes, self.queue.now_ms)) == [expected]
        if expected is Outcome.DONE:
            self.model.change(handle, visible_at_ms, body, self.queue.now_ms)

    @rule(ms=WAITS_MS)
    def wait(self, ms: int) -> None:
        self.queue.advance(ms)

    @rule(chance=st.integers(0, 3))
    def purge(self, chance: int) -> None:
        if chance == 0:
            self.run(self.queue.purge())
            self.model.purge()

    @rule(budget=st.integers(0, 20))
    def maintain(self, budget: int) -> None:
        assert self.run(self.queue.engine.maintain(budget, self.queue.now_ms)) <= budget

    @rule(chance=st.integers(0, 3))
    def restart(self, chance: int) -> None:
        if chance == 0:
            self.queue = self.run(self.driver.restart(self.queue))
            if not self.queue.continues_sequence:
                self.queue.advance(1)  # processes without a common counter number messages by time

    @invariant()
    def counts_and_messages_are_the_models(self) -> None:
        assert self.run(self.queue.counts()) == self.model.counts(self.queue.now_ms)
        assert sorted(peeked.id for peeked in self.run(self.queue.peek_all(5))) == self.model.ids()

    def _handle(self, data: st.DataObject) -> bytes:
        """Prefer new handles to old ones."""
        back = data.draw(st.integers(1, len(self.handles)))
        return self.handles[-back]


def _run(driver: Driver, fifo: bool, max_receives: int, n: int, options: Mapping[str, str]) -> None:
    """`n` examples."""
    local = DRIVERS[driver.name].atomic_settle  # over a network, shrinking an example takes an hour
    with asyncio.Runner() as runner:
        runner.run(driver.start())

        def machine() -> Machine:
            made = Machine(runner, driver, fifo, max_receives)
            made.queue.q = replace(made.queue.q, options=tuple(options.items()))
            return made

        try:
            run_state_machine_as_test(
                machine,  # type: ignore[arg-type]  # a factory is called as the class is
                settings=settings(
                    max_examples=n,
                    stateful_step_count=STEPS,
                    deadline=None,
                    phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if local else [])],
                    derandomize=True,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(driver.stop())


@pytest.mark.needs(update_body=True, keeps_leases=True)
@pytest.mark.parametrize("max_receives", [pytest.param(0, marks=pytest.mark.extended), 3])
def test_an_engine_does_what_the_model_does(driver: Driver, fifo_queue: bool, max_receives: int) -> None:
    n = EXAMPLES if DRIVERS[driver.name].atomic_settle else EXAMPLES_OVER_NETWORK
    _run(driver, fifo_queue, max_receives, examples(n), {})


@pytest.mark.extended
@pytest.mark.parametrize("options", SMALL_PIPES, ids=["owned", "locked"])
def test_small_pipes_do_what_the_model_does(tmp_path: Path, options: dict[str, str]) -> None:
    _run(Driver("pipes", tmp_path, Clock()), False, 3, EXAMPLES_OVER_NETWORK, options)
