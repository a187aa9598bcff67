# Generated from cns/client/async_calls by `make format`: change it there.
"""Calls for dead letters: which queues have them, why, and back with them."""

from __future__ import annotations

from cns.client.dead_letters import DeadLetterQueues, DeadLetterRequests, DeadLetters, Redrive, Redrives
from cns.client.sync_calls.connection import Connection
from cns.client.values import QueueNames


class DeadLetterCalls(Connection):
    def dead_letter_queues(self, after: str = "") -> DeadLetterQueues:
        """The dead-letter queues of the account's queues and subscriptions, a page at a time."""
        return self._send(DeadLetterRequests(self.account).queues(after))

    def dead_letters(self, queue: str, *, after: str = "", limit: int = 10) -> DeadLetters:
        """Look at the messages of a dead-letter queue: where each came from, and why."""
        return self._send(DeadLetterRequests(self.account).letters(queue, after, limit))

    def dead_letter_sources(self, queue: str) -> QueueNames:
        """The queues whose dead-letter queue this is."""
        return self._send(DeadLetterRequests(self.account).sources(queue))

    def redrives(self, queue: str) -> Redrives:
        """The last redrives from a dead-letter queue with their progress, the newest first."""
        return self._send(DeadLetterRequests(self.account).redrives(queue))

    def redrive(self, queue: str, *, destination_arn: str = "", messages_per_second: int | None = None) -> Redrive:
        """Move the messages of a dead-letter queue back to where they came from, or to another queue."""
        return self._send(DeadLetterRequests(self.account).redrive(queue, destination_arn, messages_per_second))

    def cancel_redrive(self, queue: str, handle: str) -> Redrive:
        """Cancel a redrive. What it has moved stays moved."""
        return self._send(DeadLetterRequests(self.account).cancel_redrive(queue, handle))
