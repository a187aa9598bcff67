"""The role `producer`: fans accepted publishes out into endpoint jobs. It sends nothing to endpoints."""

from __future__ import annotations

from cns.archives.archiver import Archiver
from cns.delivery.observers.contract import Observers
from cns.publishing.matching import SubscriptionMatcher
from cns.topics.cache import TopicCache
from cns_common.metrics.model import Sample
from cns_workers.fanout.context import FanoutContext
from cns_workers.fanout.fifo_producer import FifoProducer
from cns_workers.fanout.producer import Producer
from cns_workers.jobs.kill_points import ARMED
from cns_workers.loops import Step
from cns_workers.roles.contract import DrainResult, Role, WorkerContext


class ProducerRole(Role):
    sleeping_loops: tuple[str, ...] = ()

    def __init__(self, context: WorkerContext) -> None:
        backend = context.backend
        self._matcher = SubscriptionMatcher(backend.subscriptions, backend.clock, context.events)
        topics = TopicCache(backend.topics)
        backend.reconnected.append(topics.clear)
        fanout = FanoutContext(
            port=context.port,
            topics=topics,
            matcher=self._matcher,
            notifications=backend.notifications,
            references=context.references,
            quarantine=context.quarantine,
            stats=context.stats,
            events=context.events,
            clock=backend.clock,
            observers=Observers(*ARMED),
            spans=context.spans,
        )
        self._producer = Producer(fanout)
        self._fifo_producer = FifoProducer(fanout, Archiver(topics, backend.archives, backend.replays))
        self._loops = context.settings.producers

    def steps(self) -> dict[str, Step]:
        standard: dict[str, Step] = {f"producer-{number}": self._producer.step for number in range(1, self._loops + 1)}
        return {**standard, "fifo-producer": self._fifo_producer.step}

    def samples(self) -> list[Sample]:
        return self._matcher.counts.samples()

    async def leave(self) -> None: ...

    async def drain(self, grace_s: float) -> DrainResult:
        """Its work ends with its loops: nothing is left over."""
        return DrainResult()
