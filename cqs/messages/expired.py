"""Writes the events of expired messages of audited queues, which the engines keep a record of until then."""

from __future__ import annotations

from collections.abc import Sequence

from cns_common.errors import StoreUnavailable
from cns_common.events.audit_events import MessageEnded
from cns_common.events.audit_log import AuditLog
from cqs.engines.contract import Engine


class ExpiredMessages:
    def __init__(self, engines: Sequence[Engine], log: AuditLog) -> None:
        self._engines = engines
        self._log = log

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Write the events of up to `budget` messages of each engine; returns how many. While events cannot be written,
        the records stay. A crash between event and record repeats the event."""
        done = 0
        for engine in self._engines:
            messages = await engine.expired(budget)
            if not messages or not self._can_write():
                continue
            await self._log.write(
                [
                    MessageEnded(at_ms=one.at_ms, queue=one.audit, message_id=one.id, group=one.group, cause="expired")
                    for one in messages
                ]
            )
            await engine.forget_expired(messages)
            done += len(messages)
        return done

    def _can_write(self) -> bool:
        try:
            self._log.check()
        except StoreUnavailable:
            return False
        return True
