"""The base of consumers: what receives, settles and ends the jobs of one queue."""

from __future__ import annotations

from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.outcome_handler import OutcomeHandler
from cns_workers.consumers.running_jobs import RunningJobs
from cns_workers.delivery.channels import Channels
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.jobs.receiver import JobReceiver
from cns_workers.jobs.settlement import JobSettlement


class QueueConsumer:
    def __init__(
        self,
        queue: str,
        context: DeliveryContext,
        channels: Channels,
        admission: AdmissionController,
        busy_max: int,
        *,
        in_order: bool = False,
    ) -> None:
        """For `busy_max` and `in_order` see `RunningJobs` and `JobReceiver`."""
        self.queue = queue
        self.context = context
        self.channels = channels
        self.admission = admission
        self.receiver = JobReceiver(context.port, context.quarantine, context.clock, in_order=in_order)
        self.outcomes = OutcomeHandler(context, channels)
        self.settlement = JobSettlement(queue, context)
        self.running = RunningJobs(queue, context.stats, busy_max)

    async def drain(self, grace_s: float) -> int:
        """Wait for running jobs to end. Give the rest back, and return how many those were."""
        return await self.running.drain(grace_s)
