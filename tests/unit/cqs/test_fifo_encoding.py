"""Stored slots and snapshots of FIFO queues: what older processes read, and how much one turn of the loop does."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from cns_common.errors import StoreUnavailable
from cqs.engines.cluster.fifo import commands as c
from cqs.engines.cluster.fifo import encoding
from cqs.engines.cluster.fifo.state import FifoState

NOW_MS = 1_000_000
MESSAGES = 10 * encoding.PAGE_ITEMS
NINE = 9
"""The number of fields of a snapshot of version 1."""


def _state(messages: int) -> FifoState:
    state = FifoState()
    for at in range(0, messages, 100):
        state.apply(c.FifoSend(NOW_MS, 0, tuple(_message(number) for number in range(at, min(at + 100, messages)))))
    state.apply(c.Receive(NOW_MS, 10, NOW_MS + 30_000, 10**9, 0, "attempt"))
    return state


def _message(number: int) -> c.NewFifoMessage:
    return c.NewFifoMessage(f"{number}", f"at {number}", f"g{number % 7}", f"k{number}", NOW_MS, NOW_MS, 0, 0)


@pytest.mark.parametrize("messages", [0, 1, encoding.PAGE_ITEMS, encoding.PAGE_ITEMS + 1, MESSAGES + 7])
def test_a_snapshot_is_read_as_it_was_written(messages: int) -> None:
    state = _state(messages)
    read = FifoState.from_snapshot(state.snapshot())
    assert read.snapshot() == state.snapshot()
    assert list(read.order.messages.values()) == list(state.order.messages.values())
    assert read._dedup.all() == state._dedup.all()
    assert read._attempts.all() == state._attempts.all()


async def test_a_large_snapshot_leaves_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two turns at most one page is encoded or decoded."""
    sizes: list[int] = []
    turn = sizes.append

    def counted(items: object) -> bytes:
        turn(len(items) if isinstance(items, list) else 0)
        return msgspec.msgpack.encode(items)

    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(encoding, "_encode", counted)
    state = _state(MESSAGES)
    running = asyncio.create_task(others())
    pages = 2 * (MESSAGES // encoding.PAGE_ITEMS - 1)  # of messages and of deduplication records
    snapshot = await encoding.in_turns(state.snapshot_steps())
    assert max(sizes) == encoding.PAGE_ITEMS
    assert turns >= pages
    turns = 0
    read = await encoding.in_turns(FifoState.from_snapshot_steps(snapshot))
    assert turns >= pages
    running.cancel()
    assert read.snapshot() == snapshot


def test_a_small_snapshot_is_one_of_version_1() -> None:
    """Processes of the last release read it: they know nine fields and ignore what follows."""
    state = _state(100)
    fields = msgspec.msgpack.decode(state.snapshot())
    assert fields[0] == 1
    assert not any(fields[NINE:])
    assert FifoState.from_snapshot(msgspec.msgpack.encode(fields[:NINE])).snapshot() == state.snapshot()


def test_a_large_snapshot_of_version_1_is_read() -> None:
    state = _state(3 * encoding.PAGE_ITEMS)
    head = msgspec.msgpack.decode(_state(0).snapshot())[:6]
    everything = [list(state.order.messages.values()), state._dedup.all(), state._attempts.all()]
    head[4:6] = [state._next_seq, state._next_lease]
    assert FifoState.from_snapshot(msgspec.msgpack.encode([*head, *everything])).snapshot() == state.snapshot()


def test_a_newer_version_is_not_read() -> None:
    newer = msgspec.msgpack.decode(_state(1).snapshot())
    newer[0] = encoding.FORMAT_VERSION + 1
    with pytest.raises(StoreUnavailable):
        FifoState.from_snapshot(msgspec.msgpack.encode(newer))
    slot = msgspec.msgpack.decode(encoding.encode_slot("w", [c.FifoDrop(NOW_MS)]))
    slot[0] = encoding.FORMAT_VERSION + 1
    with pytest.raises(StoreUnavailable):
        encoding.decode_slot(msgspec.msgpack.encode(slot))


def test_only_a_slot_with_a_new_command_has_the_new_version() -> None:
    """Older processes go on reading all others."""
    assert msgspec.msgpack.decode(encoding.encode_slot("w", [c.FifoDrop(NOW_MS)]))[0] == 1
    assert msgspec.msgpack.decode(encoding.encode_slot("w", [c.PullBack(NOW_MS)]))[0] == 2
