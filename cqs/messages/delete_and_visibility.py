"""DeleteMessage and ChangeMessageVisibility."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cns_common.clock import Clock
from cns_common.errors import RequestError
from cqs.engines.contract import Change, Outcome
from cqs.limits import VISIBILITY_S_MAX, VISIBILITY_TOTAL_MS_MAX
from cqs.messages.counters import QueueCounters
from cqs.messages.queue_audit import QueueAudit
from cqs.messages.receipt_handle import Receipt, expired_handle, not_a_handle, unavailable_message
from cqs.messages.validation import invalid
from cqs.queues.view import QueueView


class VisibilityChange(NamedTuple):
    handle: str
    timeout_s: int


HandleErrors = list[RequestError | None]
"""One for each receipt handle: its error, or None for success."""


class InFlightMessages:
    def __init__(self, clock: Clock, counters: QueueCounters, audit: QueueAudit) -> None:
        self._clock = clock
        self._counters = counters
        self._audit = audit

    async def delete(self, view: QueueView, handles: Sequence[str]) -> HandleErrors:
        """A message that does not exist counts as deleted. On standard queues the handle of any delivery deletes, even
        if another consumer has a newer one; on FIFO queues only that of the newest delivery does."""
        if view.audit:
            self._audit.check()
        answers: HandleErrors = [None] * len(handles)
        engine_handles: dict[int, bytes] = {}
        for index, text in enumerate(handles):
            try:
                engine_handles[index] = view.receipts.read(text).handle
            except RequestError as error:
                answers[index] = error
        if engine_handles:
            outcomes = await view.engine.delete(
                view.ref_for_handles, list(engine_handles.values()), self._clock.now_ms()
            )
            self._counters.add_deleted(view, outcomes)
            if view.audit:
                await self._audit.deleted(
                    view, [view.receipts.read(handles[index]) for index in engine_handles], outcomes
                )
            for index, outcome in zip(engine_handles, outcomes, strict=True):
                if outcome > Outcome.GONE:
                    answers[index] = _delete_fault(view, handles[index], outcome)
        return answers

    async def change_visibility(self, view: QueueView, wanted: Sequence[VisibilityChange]) -> HandleErrors:
        now_ms = self._clock.now_ms()
        answers: HandleErrors = [None] * len(wanted)
        changes: dict[int, Change] = {}
        for index, change in enumerate(wanted):
            try:
                _check_timeout(change.timeout_s)
                changes[index] = _change(change, view.receipts.read(change.handle), now_ms)
            except RequestError as error:
                answers[index] = error
        if changes:
            outcomes = await view.engine.change(view.ref_for_handles, list(changes.values()), now_ms)
            for index, outcome in zip(changes, outcomes, strict=True):
                if outcome is not Outcome.DONE:
                    answers[index] = _change_fault(view, wanted[index].handle, outcome)
        return answers


def check_visibility(timeout_s: int) -> int:
    """Check the timeout of a receive. Return it. In seconds."""
    if not 0 <= timeout_s <= VISIBILITY_S_MAX:
        raise invalid("VisibilityTimeout", timeout_s, f"Must be >= 0 and <= {VISIBILITY_S_MAX}, if provided.")
    return timeout_s


def _check_timeout(timeout_s: int) -> None:
    """Check the new timeout of a message, which AWS refuses in other words."""
    if not 0 <= timeout_s <= VISIBILITY_S_MAX:
        raise invalid(
            "VisibilityTimeout", timeout_s, f"VisibilityTimeout must be an integer between 0 and {VISIBILITY_S_MAX}."
        )


def _change(change: VisibilityChange, receipt: Receipt, now_ms: int) -> Change:
    timeout_ms = change.timeout_s * 1000
    if now_ms + timeout_ms > receipt.received_at_ms + VISIBILITY_TOTAL_MS_MAX:
        raise invalid(
            "VisibilityTimeout",
            change.timeout_s,
            f"Total VisibilityTimeout for the message is beyond the limit [{VISIBILITY_S_MAX} seconds]",
        )
    return Change(receipt.handle, now_ms + timeout_ms)


def _delete_fault(view: QueueView, handle: str, outcome: Outcome) -> RequestError | None:
    if outcome is Outcome.MALFORMED:
        return not_a_handle(handle)
    return expired_handle(handle) if view.fifo else None  # FIFO: a newer delivery means that this one expired


def _change_fault(view: QueueView, handle: str, outcome: Outcome) -> RequestError:
    if outcome is Outcome.MALFORMED:
        return not_a_handle(handle)
    if view.fifo and outcome is not Outcome.GONE:
        return expired_handle(handle)
    return unavailable_message(handle)
