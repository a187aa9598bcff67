"""The four consumers of a worker: their loops, their shutdown, their metrics."""

from __future__ import annotations

import asyncio

from cns.delivery import jobs
from cns_common.metrics.model import Sample
from cns_workers.consumers.consumer import Consumer
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.fifo_consumer import FifoConsumer
from cns_workers.consumers.lane_consumer import LaneConsumer
from cns_workers.delivery.channels import ChannelContext, build_channels
from cns_workers.delivery.pool.pool import DeliveryPool
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.delivery.traffic.endpoint_hints import EndpointHints
from cns_workers.delivery.traffic.endpoint_state import EndpointLimits
from cns_workers.loops import Step


class Consumers:
    def __init__(
        self,
        context: DeliveryContext,
        channels: ChannelContext,
        delivery: DeliveryPool,
        redelivery: DeliveryPool,
        limits: EndpointLimits,
        hints: EndpointHints,
    ) -> None:
        """First attempts go through the `delivery` pool, all others through `redelivery`."""
        self.admission = AdmissionController(limits, context.clock, hints)
        self._first = Consumer(jobs.ENDPOINT_JOBS, context, build_channels(delivery, channels), self.admission)
        self._again = Consumer(jobs.REDELIVERY, context, build_channels(redelivery, channels), self.admission)
        self._lanes = LaneConsumer(context, build_channels(redelivery, channels), self.admission)
        self._fifo = FifoConsumer(context, build_channels(delivery, channels), self.admission)

    def steps(self) -> dict[str, Step]:
        """The step of each loop, by its name."""
        return {
            "consumer": self._first.step,
            "redelivery": self._again.step,
            "lanes": self._lanes.step,
            "fifo-consumer": self._fifo.step,
        }

    def stop_waiting(self) -> None:
        """Defer the sends that wait for room, now and from now on."""
        self.admission.stop()

    async def drain(self, grace_s: float) -> int:
        """Wait for running jobs to end. Give the rest back, and return how many those were."""
        consumers = (self._first, self._again, self._lanes, self._fifo)
        return sum(await asyncio.gather(*[consumer.drain(grace_s) for consumer in consumers]))

    def samples(self) -> list[Sample]:
        return [*self.admission.samples(), *self._lanes.samples(), *self._fifo.samples()]
