"""The deliveries of a message to each of its subscriptions, read from the service's events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Outcome = Literal["delivered", "failed", "dead_lettered", "dropped"]
FINAL: frozenset[Outcome] = frozenset({"delivered", "dead_lettered", "dropped"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An attempt that failed, or the end of a delivery. `cause` says why, `reason` is the endpoint's answer."""

    subscription: str
    protocol: str
    outcome: Outcome
    attempt: int
    cause: str = ""
    status: int = 0
    reason: str = ""


def read_deliveries(events: Path, message_id: str) -> list[Delivery]:
    """The deliveries of the message that the events have by now, in the order of time."""
    from cns_common.events.schema import (
        DeliveryAttempted,
        DeliveryDeadLettered,
        DeliveryDelivered,
        NotificationDropped,
    )
    from cns_common.events.search import search_segments

    found: list[Delivery] = []
    for one in search_segments([events], message_id).events:
        match one.event:
            case DeliveryAttempted(outcome="failed") as event:
                found.append(
                    Delivery(
                        subscription=event.subscription,
                        protocol=event.protocol,
                        outcome="failed",
                        attempt=event.attempt,
                        cause=event.cause,
                        status=event.status,
                        reason=event.reason,
                    )
                )
            case DeliveryDelivered() as event:
                found.append(_end(event, "delivered"))
            case DeliveryDeadLettered() as event:
                found.append(_end(event, "dead_lettered", event.cause))
            case NotificationDropped() as event:
                found.append(_end(event, "dropped", event.cause))
    return found


def _end(event: object, outcome: Outcome, cause: str = "") -> Delivery:
    members = {name: getattr(event, name) for name in ("subscription", "protocol", "attempt")}
    return Delivery(**members, outcome=outcome, cause=cause)


def ended(deliveries: Iterable[Delivery]) -> dict[str, Outcome]:
    """The last outcome of each subscription that no attempt follows."""
    return {one.subscription: one.outcome for one in deliveries if one.outcome in FINAL}


def difference(deliveries: Sequence[Delivery], expected: Iterable[str]) -> str:
    """A text for people about what differs from a delivery to exactly the expected subscriptions; '' if nothing."""
    wanted = set(expected)
    outcomes = ended(deliveries)
    reached = {subscription for subscription, outcome in outcomes.items() if outcome == "delivered"}
    lines = [f"not delivered to {one}: {_history(deliveries, one)}" for one in sorted(wanted - reached)]
    lines += [f"delivered to {one}, which was not expected" for one in sorted(reached - wanted)]
    return "\n".join(lines)


def _history(deliveries: Iterable[Delivery], subscription: str) -> str:
    steps = [
        f"attempt {one.attempt} {one.outcome}"
        + (f" ({one.cause}{f', {one.status}' if one.status else ''})" if one.cause else "")
        for one in deliveries
        if one.subscription == subscription
    ]
    return "; ".join(steps) or "no attempt"
