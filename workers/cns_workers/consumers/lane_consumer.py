"""The consumer of lanes: deliveries that were deferred because their endpoint had no room for them.

A lane is a message group of one FIFO queue. The worker that leases its head owns the lane, so one worker alone tries an
endpoint whose circuit breaker is open, or keeps a subscription's rate. While there is no room, the head is hidden until
there may be some; the jobs behind it cost nothing. An attempt that fails here becomes a redelivery of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from cns.queue_port.contract import LeasedJob
from cns_common.metrics.catalogue import LANES_WAITING, PAUSED_HEADS
from cns_common.metrics.model import Sample
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.hidden_lanes import HeadUnhider, HiddenLanes
from cns_workers.consumers.job_attempts import JobAttempts
from cns_workers.consumers.lane_batch import HELD_RECHECK_S, LEASE_MS, QUEUE, LaneBatch, LaneBlock
from cns_workers.consumers.paused_heads import PausedHeads
from cns_workers.consumers.queue_consumer import QueueConsumer
from cns_workers.delivery.channels import Channels
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.jobs.receiver import ReceivedJob
from cns_workers.loops import now_s

SHOW_EARLY_S = 0.5
"""A hidden head is shown early only if that gains more than this."""
JOBS_A_RECEIVE_MAX = 10
"""Jobs that one receive takes; fewer while endpoints have no room, since most of a lane would be read, decoded and
given back in vain."""
BATCHES_AT_ONCE_MAX = 16
"""The most batches that run at once, besides those that only wait for answers. Deferred deliveries come back in waves,
and must not delay those that are due now."""
WAIT_S = 20.0


class LaneConsumer(QueueConsumer):
    def __init__(self, context: DeliveryContext, channels: Channels, admission: AdmissionController) -> None:
        super().__init__(QUEUE, context, channels, admission, BATCHES_AT_ONCE_MAX)
        self._jobs_a_receive = JOBS_A_RECEIVE_MAX
        self._hidden = HiddenLanes()
        self._held = PausedHeads(QUEUE, context.port, context.targets)
        self._display = HeadUnhider(QUEUE, context.port)
        admission.on_room = self._show_lanes

    async def step(self) -> None:
        n = min(self._jobs_a_receive, await self.running.room())
        lanes: dict[str, list[ReceivedJob]] = {}
        for received in await self.receiver.target_jobs(QUEUE, n, LEASE_MS, WAIT_S):
            lanes.setdefault(received.leased.group, []).append(received)
        for batch in lanes.values():
            self.running.start(self._run(batch))

    def samples(self) -> list[Sample]:
        return [LANES_WAITING.sample(len(self._hidden)), PAUSED_HEADS.sample(self._held.count(), kind="lane")]

    async def _run(self, received: Sequence[ReceivedJob]) -> None:
        batch = LaneBatch([JobAttempts(each, self.context, self.channels) for each in received], self)
        block = await batch.run()
        if block.paused:
            await self._held.note(block.paused, batch.head.handle, HELD_RECHECK_S)
        if block.key:
            self._note_hidden(block, batch.head)
            self._jobs_a_receive = max(self._jobs_a_receive // 2, 1)
        else:
            self._jobs_a_receive = min(self._jobs_a_receive * 2, JOBS_A_RECEIVE_MAX)

    def _note_hidden(self, block: LaneBlock, head: LeasedJob) -> None:
        """Note a head that was hidden until its endpoint has room."""
        shown_s = now_s()
        self._hidden.add(block.key, head.group, head.handle, shown_s)
        if shown_s + self.admission.await_room(block.key) < block.until_s - SHOW_EARLY_S:
            self._show_lanes(block.key)

    def _show_lanes(self, key: str) -> None:
        """Show the hidden lanes of an endpoint that has room again, or whose next try has a known time."""
        if handles := self._hidden.take(key):
            self._display.show(handles)
