"""The state of a FIFO queue: it survives a snapshot, and the same commands give the same state."""

from __future__ import annotations

from random import Random

import pytest

from cqs.engines.cluster.fifo import commands as c
from cqs.engines.cluster.fifo.state import FifoState
from cqs.engines.contract import DEDUP_WINDOW_MS, Outcome

START_MS = 1_000_000
COMMANDS = 1_500


def command(dice: Random, state: FifoState, number: int) -> c.Command:
    """A random command that a caller could append, with a clock that may be a little behind."""
    now_ms = max(START_MS, state.now_ms) + dice.randrange(-300, 3_000)
    held = [message for message in state.order.messages.values() if message.lease]
    message = dice.choice(held) if held else None
    key = (message.seq, message.lease - dice.choice((0, 0, 0, 1))) if message else (1, 1)
    match dice.randrange(100):
        case n if n < 35:
            messages = [_message(dice, f"{number}-{index}", now_ms) for index in range(dice.choice((1, 1, 5)))]
            return c.FifoSend(now_ms, state.generation + (dice.random() < 0.01), tuple(messages))
        case n if n < 70:
            attempt = dice.choice(("", "a", "b", "c"))
            hide_ms = dice.choice((0, 1_000, 20_000, 60_000))
            return c.Receive(now_ms, dice.randrange(1, 11), now_ms + hide_ms, 600_000, dice.choice((0, 3)), attempt)
        case n if n < 88:
            return c.Delete(now_ms, (key, (number, 1)))
        case n if n < 94:
            visible_at_ms = dice.choice((None, now_ms, now_ms + 30_000))
            return c.FifoChange(now_ms, key, visible_at_ms, dice.choice(("", f"body {number}")))
        case n if n < 97:
            return c.Redelay(now_ms, dice.choice((0, 5_000, 60_000)))
        case 97 if dice.random() < 0.3:
            return c.PullBack(state.now_ms - dice.randrange(100_000))
        case n if n < 99 and message:
            return c.Remove(now_ms, ((message.seq, message.location),))
        case _:
            return c.Purge(now_ms, state.generation + 1) if dice.random() < 0.2 else c.Remove(now_ms, ())


def _message(dice: Random, name: str, now_ms: int) -> c.NewFifoMessage:
    dedup = dice.choice(("", name, f"k{dice.randrange(20)}"))
    delay_ms = dice.choice((0, 0, 2_000))
    return c.NewFifoMessage(name, f"at {name}", f"g{dice.randrange(7)}", dedup, now_ms, now_ms + delay_ms, 0, 0)


@pytest.mark.parametrize("seed", range(6))
def test_a_state_that_is_written_down_goes_on_as_the_one_that_was_not(seed: int) -> None:
    dice = Random(seed)
    lived, read = FifoState(), FifoState()
    answered: set[type[c.Answer]] = set()
    for number in range(COMMANDS):
        one = command(dice, lived, number)
        answer = lived.apply(one)
        answered.add(type(answer))
        assert read.apply(one) == answer
        if number % 37 == 0:
            read = FifoState.from_snapshot(read.snapshot())
    assert read.snapshot() == lived.snapshot()
    assert answered == {c.SendAnswer, c.ReceiveAnswer, c.OutcomeAnswer, type(None)}


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_what_the_messages_say(seed: int) -> None:
    dice = Random(seed)
    state = FifoState()
    for number in range(COMMANDS):
        state.apply(command(dice, state, number))
        now_ms = state.now_ms + dice.randrange(0, 2_000)
        hidden = [message for message in state.order.messages.values() if message.visible_at_ms > now_ms]
        delayed = sum(not message.deliveries for message in hidden)
        assert state.order.hidden.counts(now_ms) == (len(hidden) - delayed, delayed)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_due_next_is_the_first_of_some_group(seed: int) -> None:
    dice = Random(seed)
    state = FifoState()
    for number in range(COMMANDS):
        state.apply(command(dice, state, number))
        firsts: dict[str, int] = {}
        for message in state.order.messages.values():
            firsts.setdefault(message.group, message.visible_at_ms)
        assert state.order.next_due_ms() == min(firsts.values(), default=None)


def test_nothing_of_a_group_passes_what_is_hidden_of_it() -> None:
    dice = Random(1)
    state = FifoState()
    for number in range(COMMANDS):
        one = command(dice, state, number)
        before = {message.seq: (message.visible_at_ms, message.group) for message in state.order.messages.values()}
        answer = state.apply(one)
        if isinstance(answer, c.ReceiveAnswer) and isinstance(one, c.Receive) and not one.attempt_id:
            for given in answer.messages:
                earlier = [due for seq, (due, group) in before.items() if group == given.group and seq < given.seq]
                assert all(due <= state.now_ms for due in earlier)


def test_messages_that_are_gone_from_the_midst_of_a_group_change_nothing() -> None:
    """A message that always fails is ahead of a thousand deleted ones."""
    state = FifoState()
    messages = tuple(c.NewFifoMessage(f"{n}", f"{n}", "g", "", START_MS, START_MS, 0, 0) for n in range(200))
    state.apply(c.FifoSend(START_MS, 0, messages))
    for number in range(1, 15):
        now_ms = START_MS + number * 1_000
        taken = state.apply(c.Receive(now_ms, 10, now_ms + 30_000, 10**9, 0, ""))
        assert isinstance(taken, c.ReceiveAnswer)
        assert len(taken.messages) == 10
        state.apply(c.Delete(now_ms, tuple((one.seq, one.lease) for one in taken.messages[1:])))
        state.apply(c.FifoChange(now_ms, (1, taken.messages[0].lease), now_ms, ""))
        state = FifoState.from_snapshot(state.snapshot()) if number % 3 == 0 else state


def test_what_was_hidden_again_and_again_leaves_little_behind() -> None:
    state = FifoState()
    state.apply(c.FifoSend(START_MS, 0, (c.NewFifoMessage("1", "1", "g", "", START_MS, START_MS, 0, 0),)))
    taken = state.apply(c.Receive(START_MS, 1, START_MS + 60_000, 10**9, 0, ""))
    assert isinstance(taken, c.ReceiveAnswer)
    for number in range(2_000):
        state.apply(c.FifoChange(START_MS, (1, taken.messages[0].lease), START_MS + 60_000 + number, ""))
    assert len(state.order._heads) + len(state.order.hidden._heap) < 200


def test_the_same_command_twice_is_no_duplicate_and_no_second_message() -> None:
    state = FifoState()
    send = c.FifoSend(START_MS, 0, (c.NewFifoMessage("1", "place", "g", "key", START_MS, START_MS, 0, 0),))
    assert state.apply(send) == state.apply(send)
    assert len(state.order.messages) == 1


def test_a_repeated_attempt_was_received_when_it_was_at_first() -> None:
    """Also with a clock that is behind: receipt handles begin with that time, and must be the same."""
    state = FifoState()
    state.apply(c.FifoSend(START_MS, 0, (c.NewFifoMessage("1", "1", "g", "", START_MS, START_MS, 0, 0),)))
    behind_ms = START_MS - 300
    first, again = [state.apply(c.Receive(behind_ms, 1, behind_ms + 60_000, 10**9, 0, "a")) for _ in range(2)]
    assert isinstance(first, c.ReceiveAnswer) and len(first.messages) == 1
    assert again == first


def test_a_purge_that_comes_late_leaves_what_was_sent_since() -> None:
    state = FifoState()
    state.apply(c.FifoSend(START_MS, 1, (c.NewFifoMessage("1", "1", "g", "", START_MS, START_MS, 0, 0),)))
    state.apply(c.Purge(START_MS, 1))
    assert len(state.order.messages) == 1


# -- a time that was ahead --------------------------------------------------------------------------------------------

AHEAD_MS = 120_000


def _sent(state: FifoState, now_ms: int, name: str, *, delay_ms: int = 0) -> None:
    state.apply(c.FifoSend(now_ms, 0, (c.NewFifoMessage(name, name, name, name, now_ms, now_ms + delay_ms, 0, 0),)))


def _taken(state: FifoState, now_ms: int, hide_ms: int = 30_000) -> list[c.LeasedMessage]:
    taken = state.apply(c.Receive(now_ms, 10, now_ms + hide_ms, 10**9, 0, ""))
    assert isinstance(taken, c.ReceiveAnswer)
    return list(taken.messages)


def test_a_lease_that_a_wrong_clock_ended_holds_again() -> None:
    state = FifoState()
    _sent(state, START_MS, "a")
    (held,) = _taken(state, START_MS)
    _sent(state, START_MS + AHEAD_MS, "of the wrong clock")
    state.apply(c.PullBack(START_MS + 1_000))
    assert [given.id for given in _taken(state, START_MS + 1_000)] == ["of the wrong clock"]
    deleted = state.apply(c.Delete(START_MS + 2_000, ((held.seq, held.lease),)))
    assert deleted == c.OutcomeAnswer((Outcome.DONE,), ("a",))


def test_after_a_pull_back_leases_delays_and_retention_have_their_lengths() -> None:
    state = FifoState()
    _sent(state, START_MS + AHEAD_MS, "a")
    state.apply(c.PullBack(START_MS))
    assert state.order.messages[1].born_at_ms == START_MS
    assert len(_taken(state, START_MS)) == 1
    assert not _taken(state, START_MS + 29_999)
    assert len(_taken(state, START_MS + 30_000)) == 1
    _sent(state, START_MS + 30_000, "delayed", delay_ms=2_000)
    assert not _taken(state, START_MS + 31_999)
    assert len(_taken(state, START_MS + 32_000)) == 1


def test_what_was_delayed_while_the_time_was_ahead_comes_at_its_time() -> None:
    state = FifoState()
    _sent(state, START_MS + AHEAD_MS, "of the wrong clock", delay_ms=2_000)
    _sent(state, START_MS, "of a right clock", delay_ms=3_000)
    state.apply(c.PullBack(START_MS))
    assert [given.id for given in _taken(state, START_MS + 2_000)] == ["of the wrong clock"]
    assert [given.id for given in _taken(state, START_MS + 3_000)] == ["of a right clock"]


def test_a_lease_that_was_given_while_the_time_was_ahead_ends_late_but_ends() -> None:
    """It may be of before, and another consumer must not get the message during it."""
    state = FifoState()
    _sent(state, START_MS, "a")
    _sent(state, START_MS + AHEAD_MS, "of the wrong clock")
    assert len(_taken(state, START_MS)) == 2
    state.apply(c.PullBack(START_MS))
    assert not _taken(state, START_MS + 30_000)
    assert len(_taken(state, START_MS + AHEAD_MS + 30_000)) == 2


def test_a_lease_given_years_ahead_ends_in_time() -> None:
    state = FifoState()
    _sent(state, START_MS, "a")
    state.apply(c.Remove(START_MS + 20 * 365 * 86_400_000, ()))
    assert len(_taken(state, START_MS)) == 1
    state.apply(c.PullBack(START_MS))
    assert not _taken(state, START_MS + 29_999)
    assert len(_taken(state, START_MS + 30_000)) == 1


def test_deduplication_outlives_a_pull_back_and_then_ends() -> None:
    state = FifoState()
    _sent(state, START_MS + AHEAD_MS, "a")
    state.apply(c.PullBack(START_MS))
    _sent(state, START_MS + DEDUP_WINDOW_MS - 1, "a")
    assert len(state.order.messages) == 1
    _sent(state, START_MS + DEDUP_WINDOW_MS, "a")
    assert len(state.order.messages) == 2
    assert len(state._dedup.all()) == 1


def test_a_time_in_the_future_pulls_nothing_back() -> None:
    state = FifoState()
    _sent(state, START_MS, "a")
    before = state.snapshot()
    state.apply(c.PullBack(START_MS + 1_000))
    assert state.snapshot() == before
