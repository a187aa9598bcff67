"""A FIFO queue's new delay, applied to the messages that wait: in steps, since there may be many."""

from __future__ import annotations

from collections.abc import Sequence

from cqs.engines.contract import QueueRef
from cqs.engines.embedded import schema
from cqs.engines.embedded.transaction import State


def redelay(state: State, q: QueueRef, seqs: Sequence[int], delay_ms: int, now_ms: int) -> None:
    """Of these messages, those that were never delivered become visible `delay_ms` after they were sent."""
    line = state.line(q, now_ms)
    if line is None:
        return
    for seq in seqs:
        held = state.row(schema.HELD, (seq,))
        changed = state.row(schema.REDELAY, (delay_ms, seq, line.key))
        if changed is None:
            continue
        before, after = held[2], changed[0]
        if before > now_ms:
            line.hidden.remove(now_ms, before, False)
        if after > now_ms:
            line.hidden.add(now_ms, after, False)
    state.touch(line, len(seqs))
