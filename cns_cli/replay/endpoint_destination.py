"""Replays to an endpoint without a subscription: a queue of this service, or a URL. This process sends them itself.

What a subscriber would get is sent, through the channels of the workers. An attempt that fails is repeated a few times,
of which the operator is told once; then the replay stops, so that nothing is lost: the same command continues it. After
the first message that was given up no attempt begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypedDict

from msgspec.structs import replace

from cns.archives.replay_jobs import as_replay
from cns.delivery.envelope import MessageType
from cns.delivery.target import Target
from cns.endpoints.outcome import Delivered, Failed, Outcome
from cns.notification import Notification
from cns_cli.replay.model import ReplayStopped
from cns_cli.replay.pace import Sleep
from cns_common.clock import Clock
from cns_common.events.schema import FIRST, REASON_CHARS_MAX, UNPLANNED, DeliveryAttempted, DeliveryDelivered, EventSink
from cns_workers.delivery.channel import Channel

RETRIES_AFTER_S = (1.0, 2.0, 5.0, 10.0)
RETRY_AFTER_S_MAX = 60.0
"""The longest wait that an endpoint may ask for."""
SENDS_AT_ONCE = 10


class EndpointContext(NamedTuple):
    """The dependencies of an endpoint's replay."""

    channel: Channel
    target: Target
    clock: Clock
    events: EventSink
    sleep: Sleep
    warn: Callable[[str], None]


class _Facts(TypedDict):
    """The fields of both events."""

    at_ms: int
    message_id: str
    message_type: str
    topic: str
    subscription: str
    protocol: str
    attempt: int
    endpoint: str
    replayed: bool


class EndpointDestination:
    """Messages of one group are sent one after another; others at most SENDS_AT_ONCE at a time, begun in order."""

    def __init__(self, context: EndpointContext, replay_id: str) -> None:
        self._context = context
        self._replay_id = replay_id
        self._room = asyncio.Semaphore(SENDS_AT_ONCE)
        self._stopped: ReplayStopped | None = None
        self._warned = False  # since the last message that was delivered

    async def send(self, notifications: Sequence[Notification]) -> int:
        lines: dict[str, list[Notification]] = {}
        for each in notifications:
            lines.setdefault(each.message_group_id if each.fifo else each.id, []).append(self._adapted(each))
        results = await asyncio.gather(*[self._send_line(line) for line in lines.values()], return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        if self._stopped is not None:
            raise self._stopped
        return len(notifications)

    def _adapted(self, notification: Notification) -> Notification:
        """The topic in the message stays its own."""
        adapted = as_replay(notification, notification.topic_arn, self._replay_id)
        return replace(adapted, message_deduplication_id=f"{notification.id}-{self._replay_id}")

    async def _send_line(self, notifications: Sequence[Notification]) -> None:
        for notification in notifications:
            async with self._room:
                await self._send(notification)

    async def _send(self, notification: Notification) -> None:
        context = self._context
        for failures, pause_s in enumerate((*RETRIES_AFTER_S, None), 1):
            if self._stopped is not None:
                return
            outcome = await context.channel.deliver(context.target, notification)
            self._report(notification, outcome, failures)
            if not isinstance(outcome, Failed):
                self._warned = False
                return
            if outcome.permanent or pause_s is None:
                what = f"{context.target.endpoint} does not take message {notification.id}: {outcome.text}"
                self._stopped = ReplayStopped(f"{what}. Run the command again to continue")
                return
            self._warn(outcome)
            await context.sleep(max(pause_s, min(outcome.retry_after_s, RETRY_AFTER_S_MAX)))

    def _warn(self, outcome: Failed) -> None:
        """Tell the operator at the first failure, not after the last."""
        if not self._warned:
            self._warned = True
            retries = f"each message is tried {len(RETRIES_AFTER_S)} times more"
            self._context.warn(
                f"{self._context.target.endpoint} fails: {outcome.text}; {retries}, then the replay stops"
            )

    def _report(self, notification: Notification, outcome: Outcome, attempt: int) -> None:
        if outcome.repeats is not None:
            self._report(notification, outcome.repeats, attempt)
        context, failed = self._context, outcome if isinstance(outcome, Failed) else None
        now_ms = context.clock.now_ms()
        facts = _Facts(
            at_ms=now_ms,
            message_id=notification.id,
            message_type=MessageType.NOTIFICATION.value,
            topic=notification.topic_arn,
            subscription="",
            protocol=context.target.protocol,
            attempt=attempt,
            endpoint=context.target.endpoint_name,
            replayed=True,
        )
        context.events.emit(
            DeliveryAttempted(
                **facts,
                phase=FIRST if attempt == 1 else UNPLANNED,
                outcome="failed" if failed else "delivered",
                cause=failed.cause.value if failed else "",
                status=outcome.status,
                duration_ms=outcome.dwell_ms,
                reason=failed.text[:REASON_CHARS_MAX] if failed else "",
            )
        )
        if isinstance(outcome, Delivered):
            since_publish_ms = now_ms - notification.timestamp_ms
            delivered = DeliveryDelivered(**facts, since_publish_ms=since_publish_ms, size_bytes=outcome.size_bytes)
            context.events.emit(delivered)
