"""A settlement in steps, for engines without transactions across queues: sends first, then deletes and changes.

A crash between the steps repeats messages and loses none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cqs.engines.contract import (
    Engine,
    Outcome,
    QueueRef,
    RejectedEntry,
    SentEntry,
    Settlement,
    SettlementResult,
)

IsDropped = Callable[[QueueRef], Awaitable[bool]]


async def settle_in_steps(
    engine: Engine, is_dropped: IsDropped, settlement: Settlement, now_ms: int
) -> SettlementResult:
    """See `cqs.engines.contract.Engine.settle`. `is_dropped` says whether a queue of a send was dropped."""
    targets = {q.id: q for q, _ in settlement.sends}
    dropped = {queue_id for queue_id, q in targets.items() if await is_dropped(q)}
    if dropped:
        return SettlementResult(sends=_rejected(settlement, dropped))
    answers = await _send_each(engine, settlement, now_ms)
    rejected = {q.id for (q, _), one in zip(settlement.sends, answers, strict=True) if isinstance(one, RejectedEntry)}
    if rejected:
        return SettlementResult(sends=_rejected(settlement, rejected))
    changes, deletes = await asyncio.gather(
        asyncio.gather(*[engine.change(q, [change], now_ms) for q, change in settlement.changes]),
        _delete_each(engine, settlement, now_ms),
    )
    return SettlementResult(deletes, answers, tuple([outcome for (outcome,) in changes]))


async def _delete_each(engine: Engine, settlement: Settlement, now_ms: int) -> tuple[Outcome, ...]:
    """One delete per queue."""
    handles: dict[QueueRef, list[bytes]] = {}
    for q, handle in settlement.deletes:
        handles.setdefault(q, []).append(handle)
    done = await asyncio.gather(*[engine.delete(q, list(some), now_ms) for q, some in handles.items()])
    answers = {q: iter(outcomes) for q, outcomes in zip(handles, done, strict=True)}
    return tuple([next(answers[q]) for q, _ in settlement.deletes])


async def _send_each(engine: Engine, settlement: Settlement, now_ms: int) -> tuple[SentEntry | RejectedEntry, ...]:
    """Entries of one FIFO queue are sent in one call, in order."""
    batches: dict[object, tuple[QueueRef, list[int]]] = {}
    for index, (q, _) in enumerate(settlement.sends):
        batches.setdefault(q.id if q.fifo else index, (q, []))[1].append(index)
    sent = await asyncio.gather(
        *[engine.send(q, [settlement.sends[index][1] for index in some], now_ms) for q, some in batches.values()]
    )
    answers = {
        index: answer
        for (_, some), given in zip(batches.values(), sent, strict=True)
        for index, answer in zip(some, given, strict=True)
    }
    return tuple([answers[index] for index in range(len(answers))])


def _rejected(settlement: Settlement, dropped: set[str]) -> tuple[RejectedEntry, ...]:
    return tuple(
        [RejectedEntry() if q.id in dropped else RejectedEntry("another_rejected") for q, _ in settlement.sends]
    )
