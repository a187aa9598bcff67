"""The arrivals at the HTTP endpoints, read from the journal of the receiver as it grows."""

from __future__ import annotations

from pathlib import Path

OK = b"200"
NO_ANSWER = b"0"


class Arrivals:
    """Arrivals after this object was made: rounds share one receiver and its journal."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._offset = journal.stat().st_size if journal.exists() else 0
        self._rest = b""
        self.by_notification: dict[str, dict[str, list[int]]] = {}  # id, then subscription, then times in ns
        self.refused: dict[str, dict[str, list[int]]] = {}  # likewise, for answers other than 200
        self.failed = 0  # attempts, answered or not

    def read(self) -> bool:
        """Read the new lines of the journal. Returns whether there were any."""
        with self._journal.open("rb") as file:
            file.seek(self._offset)
            lines = (self._rest + (new := file.read())).split(b"\n")
        self._offset += len(new)
        self._rest = lines.pop()
        for line in lines:
            arrived, _endpoint, message_id, subscription, status = line.split(b"\t")
            self.failed += status != OK
            if status != NO_ANSWER:
                attempts = self.by_notification if status == OK else self.refused
                subscriptions = attempts.setdefault(message_id.decode(), {})
                subscriptions.setdefault(subscription.decode(), []).append(int(arrived))
        return bool(new)

    @property
    def count(self) -> int:
        """Deliveries, without repeats."""
        return sum(len(subscriptions) for subscriptions in self.by_notification.values())

    def first_after(self, at_ns: int) -> int:
        arrived = [
            arrival
            for subscriptions in self.by_notification.values()
            for times in subscriptions.values()
            for arrival in times
            if arrival > at_ns
        ]
        return min(arrived, default=at_ns)

    def times(self, notification: str) -> list[int]:
        return [arrival for times in self.by_notification.get(notification, {}).values() for arrival in times]

    def subscribers(self, topic: str, notification: str) -> dict[str, list[int]]:
        """Subscription ARN of this topic → arrival times in ns."""
        found = self.by_notification.get(notification, {})
        return {name: times for name, times in found.items() if name.startswith(f"{topic}:")}

    def notifications(self, topic: str) -> set[str]:
        return {
            notification
            for notification, subscriptions in self.by_notification.items()
            if any(name.startswith(f"{topic}:") for name in subscriptions)
        }
