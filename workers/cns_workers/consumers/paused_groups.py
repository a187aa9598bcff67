"""FIFO: the message groups of paused subscriptions.

The head of a group is hidden, which hides the group. Nothing is written into its jobs meanwhile: how long they are held
follows from when they were enqueued, and their leases during the pause are written off once, after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cns.delivery import jobs
from cns.delivery.failure_causes import FinalCause
from cns.delivery.jobs import EndpointJob, Redelivery
from cns.delivery.target import Target
from cns.queue_port.contract import LeasedJob, Renewal
from cns_common.metrics.catalogue import PAUSED_HEADS
from cns_common.metrics.model import Sample
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.job_attempts import is_held_too_long
from cns_workers.consumers.paused_heads import PausedHeads
from cns_workers.jobs.receiver import ReceivedJob

RECHECK_MS_MIN = 60_000
RECHECK_MS_MAX = 300_000
"""Bounds of the time until a group is rechecked. It is as long as the group's head has been held, or shorter by up to a
half, so that groups that were held at once are not all rechecked together."""
SPREAD_BY_MS = 100
"""Jobs stored within this time are neighbours in the store, and are rechecked together: that writes few pages."""
WAVE_MS = 5_000
"""Rechecks are rounded to multiples of this: ten of them in one commit cost hardly more than one."""
GOLDEN_RATIO = 0.618034
"""The fractional parts of its multiples are spread evenly between 0 and 1."""


class PausedGroups:
    def __init__(self, queue: str, context: DeliveryContext) -> None:
        self._queue = queue
        self._context = context
        self._heads = PausedHeads(queue, context.port, context.targets)

    def samples(self) -> list[Sample]:
        return [PAUSED_HEADS.sample(self._heads.count(), kind="fifo")]

    async def target(self, received: ReceivedJob) -> Target | None:
        """The target of a job that a pause can hold."""
        if not isinstance(received.job, EndpointJob):
            return None
        targets = await self._context.targets.find(received.job.subscriptions[:1])
        return targets[0] if targets and targets[0].confirmed else None

    def is_held(self, received: ReceivedJob, target: Target) -> bool:
        """Whether the job waits for the resumption. False if it goes to the dead-letter queue now."""
        return target.paused and not received.ended and not is_held_too_long(received, self._context.clock.now_ms())

    def renewals(self, group: Sequence[ReceivedJob]) -> list[Renewal]:
        """Hide the head until the group is rechecked, and give back the jobs behind it."""
        delays_ms = [self._recheck_ms(group[0]), *[0] * (len(group) - 1)]
        return [
            Renewal(self._queue, received.leased.handle, delay_ms)
            for received, delay_ms in zip(group, delays_ms, strict=True)
        ]

    async def note(self, subscription: str, head: LeasedJob, hidden_ms: int) -> None:
        """Note a head that was hidden until its subscription is resumed, unless it was resumed meanwhile."""
        await self._heads.note(subscription, head.handle, hidden_ms / 1000)

    async def write_off_leases(
        self, group: Sequence[ReceivedJob], target: Target, lease_ms: int
    ) -> Sequence[ReceivedJob]:
        """Record in jobs whose pause has ended that leases lost during the pause do not count for the quarantine. Once
        after each pause: later ones count again."""
        written = {received.leased.handle: self._written_off(received, target) for received in group}
        changed = [received for received in group if written[received.leased.handle] is not received]
        if not changed:
            return group
        renewals = [
            Renewal(self._queue, handle, lease_ms, _body(written[handle]))
            for handle in (received.leased.handle for received in changed)
        ]
        await self._context.port.settle(self._queue, renewals=renewals)
        return list(written.values())

    def _written_off(self, received: ReceivedJob, target: Target) -> ReceivedJob:
        now_ms = self._context.clock.now_ms()
        returns = received.leased.deliveries - received.failures - 1
        if returns <= received.returns or self.is_held(received, target):
            return received
        if target.paused and not received.ended:
            return replace(received, returns=returns, ended=FinalCause.DEADLINE_PAUSED)
        if received.since_ms < target.resumed_ms:  # the new since_ms is later, so this is done once
            since_ms = max(now_ms, target.resumed_ms)
            return replace(received, returns=returns, first_attempt_ms=since_ms, since_ms=since_ms)
        return received

    def _recheck_ms(self, head: ReceivedJob) -> int:
        now_ms = self._context.clock.now_ms()
        held_ms = now_ms - min(head.since_ms, head.leased.sent_ms)
        longest_ms = min(max(held_ms, RECHECK_MS_MIN), RECHECK_MS_MAX)
        spread = head.leased.sent_ms // SPREAD_BY_MS * GOLDEN_RATIO % 1.0
        look_ms = now_ms + int(longest_ms * (1 + spread) / 2)
        return look_ms // WAVE_MS * WAVE_MS - now_ms


def _body(received: ReceivedJob) -> bytes:
    return jobs.encode(
        Redelivery(received.job, received.failures, received.first_attempt_ms, received.returns, received.ended)
    )
