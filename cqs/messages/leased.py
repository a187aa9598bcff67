"""Messages as the holder of a lease sees them: acknowledge, new contents, a new lease; with the engine's outcomes.

DeleteMessage answers success for the handle of an older delivery. Here such a handle is STALE (CassieQ, seed 001: an
invalid pop receipt means that the lease expired).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cns_common.clock import Clock
from cqs.engines.contract import Change, Outcome
from cqs.limits import VISIBILITY_TOTAL_MS_MAX
from cqs.messages.counters import QueueCounters
from cqs.messages.delete_and_visibility import check_visibility
from cqs.messages.queue_audit import QueueAudit
from cqs.messages.receipt_handle import Receipt
from cqs.messages.validation import validate_message
from cqs.queues.model import Body, encode_body
from cqs.queues.view import QueueView

_IDS = {"MessageGroupId": "update", "MessageDeduplicationId": "update"}
"""A FIFO queue's validation asks for ids; those of the message do not change."""


class LeasedMessages:
    def __init__(self, clock: Clock, counters: QueueCounters, audit: QueueAudit) -> None:
        self._clock = clock
        self._counters = counters
        self._audit = audit

    async def acknowledge(self, view: QueueView, handle: str) -> Outcome:
        """Delete the message of the newest delivery. Raises RequestError for text that is no handle of the queue."""
        if view.audit:
            self._audit.check()
        receipt = view.receipts.read(handle)
        outcomes = await view.engine.delete(view.ref, [receipt.handle], self._clock.now_ms())
        self._counters.add_deleted(view, outcomes)
        if view.audit:
            await self._audit.deleted(view, [receipt], outcomes)
        return outcomes[0]

    async def update(
        self, view: QueueView, handle: str, *, members: Mapping[str, Any] | None, lease_s: int | None, sender: str
    ) -> Outcome:
        """Replace the contents by those of SendMessage's `members`, and let the lease end `lease_s` from now.

        The new contents count as sent now. Raises RequestError for contents or a lease that SQS would refuse.
        """
        receipt = view.receipts.read(handle)
        now_ms = self._clock.now_ms()
        body = None if members is None else _body(view, members, sender, now_ms)
        visible_at_ms = None if lease_s is None else now_ms + check_visibility(lease_s) * 1000
        if visible_at_ms is not None and visible_at_ms > _lease_end_max(receipt):
            return Outcome.EXPIRED
        (outcome,) = await view.engine.change(view.ref, [Change(receipt.handle, visible_at_ms, body)], now_ms)
        return outcome


def _lease_end_max(receipt: Receipt) -> int:
    return receipt.received_at_ms + VISIBILITY_TOTAL_MS_MAX


def _body(view: QueueView, members: Mapping[str, Any], sender: str, now_ms: int) -> bytes:
    ids = _IDS if view.fifo else {}
    message = validate_message(view, {**members, **ids})
    _, _, attributes, attributes_md5 = message.attributes
    return encode_body(Body(message.text, message.md5, sender, now_ms, "", attributes, attributes_md5, message.trace))
