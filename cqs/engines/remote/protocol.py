"""The calls of an engine over the host's socket, with the types of their arguments and results."""

from __future__ import annotations

from collections.abc import Mapping

from cns_common.rpc.rpc import Method
from cqs.engines.contract import (
    Capabilities,
    Change,
    Counts,
    Entry,
    ExpiredMessage,
    Outcome,
    PeekPage,
    QueueRef,
    ReceiveResult,
    RejectedEntry,
    SentEntry,
    Settlement,
    SettlementResult,
)

_METHODS: Mapping[str, Method] = {
    "capabilities": Method(tuple[()], Capabilities),
    "send": Method(tuple[QueueRef, list[Entry], int], list[SentEntry | RejectedEntry]),
    "receive": Method(tuple[QueueRef, int, int, int, str], ReceiveResult),
    "delete": Method(tuple[QueueRef, list[bytes], int], list[Outcome]),
    "change": Method(tuple[QueueRef, list[Change], int], list[Outcome]),
    "settle": Method(tuple[Settlement, int], SettlementResult),
    "peek": Method(tuple[QueueRef, str, int, int], PeekPage),
    "counts": Method(tuple[QueueRef, int, bool], Counts),
    "purge": Method(tuple[QueueRef, int], None),
    "drop": Method(tuple[QueueRef, int], None),
    "set_attributes": Method(tuple[QueueRef, int], None),
    "redelay": Method(tuple[QueueRef, int, int], None),
    "maintain": Method(tuple[int, int], int),
    "expired": Method(tuple[int], list[ExpiredMessage]),
    "forget_expired": Method(tuple[list[ExpiredMessage]], None),
    "add_waiter": Method(tuple[QueueRef, int], None),
    "pass_on": Method(tuple[int], None),
    "remove_waiter": Method(tuple[int, int], None),
    "long_poll": Method(tuple[int, QueueRef, int, int, float], ReceiveResult),
    "stop_long_polls": Method(tuple[int], None),
}


def methods(engine_name: str) -> dict[str, Method]:
    """The calls that the store host answers for its engine of this name."""
    return {f"{prefix(engine_name)}{name}": method for name, method in _METHODS.items()}


def prefix(engine_name: str) -> str:
    return f"engine.{engine_name}."


def woken_event(engine_name: str) -> str:
    return f"{prefix(engine_name)}woken"
