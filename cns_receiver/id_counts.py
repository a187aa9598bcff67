"""Counts the arrivals of each message at an endpoint, and remembers which messages it accepted.

An arrival after the endpoint had accepted the same message is a duplicate; one before that is a retry.
"""

from __future__ import annotations

MESSAGE_IDS_MAX = 1_000_000
"""Pairs of message and subscription that a process remembers: about 120 MB."""

_ACCEPTED = 1  # the lowest bit of a state; the other bits count the arrivals
_ARRIVAL = 2


class IdCapacity:
    """The number of ids that may still be remembered, shared by all endpoints."""

    def __init__(self, ids_max: int = MESSAGE_IDS_MAX) -> None:
        self.left = ids_max


class IdCounts:
    def __init__(self, capacity: IdCapacity) -> None:
        self._capacity = capacity
        self._states: dict[bytes, dict[bytes, int]] = {}  # subscription → message → state
        self.distinct_messages = 0
        """A message that arrived for two subscriptions counts once."""
        self.duplicates = 0
        self.retries = 0
        self.forgotten = 0
        """Arrivals of messages whose ids exceeded the capacity."""

    def arrive(self, message_id: bytes, subscription: bytes) -> int:
        """Count an arrival; return the number of arrivals of the message so far."""
        states = self._states.get(subscription, {})
        state = states.get(message_id, 0)
        if not state:
            if not self._capacity.left:
                self.forgotten += 1
                return 1
            self._capacity.left -= 1
            self._states[subscription] = states
            if len(self._states) == 1 or not any(message_id in others for others in self._states.values()):
                self.distinct_messages += 1
        elif state & _ACCEPTED:
            self.duplicates += 1
        else:
            self.retries += 1
        states[message_id] = state = state + _ARRIVAL
        return state >> 1

    def accept(self, message_id: bytes, subscription: bytes) -> None:
        states = self._states.get(subscription, {})
        if message_id in states:
            states[message_id] |= _ACCEPTED

    def ids(self, *, accepted_only: bool = False) -> dict[str, int]:
        """Return the number of arrivals of every message, summed over its subscriptions."""
        arrivals: dict[str, int] = {}
        for states in self._states.values():
            for message_id, state in states.items():
                if state & _ACCEPTED or not accepted_only:
                    text = message_id.decode("latin-1")
                    arrivals[text] = arrivals.get(text, 0) + (state >> 1)
        return arrivals

    def clear(self) -> None:
        """Forget all ids and release their capacity."""
        self._capacity.left += sum(map(len, self._states.values()))
        self._states = {}
