"""The worker process: producers, consumers, two delivery pools and upkeep, over the link to the store host."""

from __future__ import annotations

import asyncio
import os

import structlog

from cns import jobs
from cns.archives.keeping import Archiving
from cns.archives.replaying import Replaying
from cns.endpoints.guard import AddressGuard
from cns.endpoints.http import HttpRequest, HttpSender
from cns.endpoints.redis import RedisRequest, RedisSender
from cns.endpoints.senders import Senders
from cns.matching import Matching
from cns.queue_port import QueuePort
from cns.recipients import Recipients
from cns.signing import Signer, SigningIdentity
from cns.target import Targets
from cns.topic_view import TopicCache
from common.errors import OutcomeUnknown, StoreUnavailable
from common.metrics import Sample
from common.settings import Settings
from cqs.service import QueueService
from workers.concluding import Tools
from workers.consumer import Consumer
from workers.control import REPORT_S, Report
from workers.delivery import Deliverer
from workers.drops import Drops
from workers.envelopes import Rendering
from workers.fifo_consumer import FifoConsumer
from workers.fifo_producer import FifoProducer
from workers.host import Parts
from workers.loops import Loops
from workers.movers import Movers
from workers.pools import DeliveryPool
from workers.producer import Producer
from workers.quarantine import Quarantine
from workers.queue_ports import queue_port
from workers.replays import Replayers
from workers.services import event_log, queue_service
from workers.stats import Stats
from workers.upkeep import Upkeep
from workers.urls import base_url

DRAIN_S = 20.0
STEP_GRACE_S = 5.0
NOTIFICATION_LIFE_MS = 30 * 24 * 3_600_000

log = structlog.get_logger(__name__)


class Worker:
    def __init__(
        self, settings: Settings, parts: Parts, rendering: Rendering, queues: QueueService, port: QueuePort
    ) -> None:
        self._parts = parts
        self._stats = Stats()
        self._events = event_log(settings, "worker", parts.clock)
        self._loops = Loops()
        self._port = port
        guard = AddressGuard(settings.networks())

        def wall_s() -> float:
            return parts.clock.wall_ms() / 1000

        def make_senders() -> Senders:
            timeout_s = settings.delivery_timeout_s
            return Senders(
                {
                    HttpRequest: HttpSender(guard, timeout_s=timeout_s, wall_s=wall_s),
                    RedisRequest: RedisSender(guard, timeout_s=timeout_s),
                }
            )

        recipients = Recipients(
            parts.sms, parts.mobile_endpoints, parts.platforms, in_sandbox=settings.sms_sandbox == "on"
        )

        def deliverer(pool: DeliveryPool) -> Deliverer:
            return Deliverer.build(pool, self._port, rendering, parts.outbox, recipients, settings.gateway_url)

        self._delivery = DeliveryPool("delivery", settings.delivery_threads, make_senders)
        self._redelivery = DeliveryPool("redelivery", settings.redelivery_threads, make_senders)
        self.pools = {pool.name: pool for pool in (self._delivery, self._redelivery)}
        quarantine = Quarantine(self._port, self._stats)
        targets = Targets(parts.topics, parts.subscriptions)
        parts.reconnected.append(targets.forget_all)
        tools = Tools(
            port=self._port,
            notifications=parts.notifications,
            targets=targets,
            clock=parts.clock,
            quarantine=quarantine,
            stats=self._stats,
            events=self._events,
            client_errors_succeed=settings.permanent_4xx == "aws",
        )
        self._consumers = [
            Consumer(jobs.ENDPOINT_JOBS, tools, deliverer(self._delivery)),
            Consumer(jobs.REDELIVERY, tools, deliverer(self._redelivery)),
        ]
        self._fifo_consumer = FifoConsumer(tools, deliverer(self._delivery))
        self._drains = [*[consumer.drain for consumer in self._consumers], self._fifo_consumer.drain]
        self._matching = Matching(parts.subscriptions, parts.clock, self._events)
        fanning_out = (
            self._port,
            self._matching,
            parts.notifications,
            quarantine,
            Drops(self._stats, self._events, parts.clock),
            NOTIFICATION_LIFE_MS,
        )
        self._producer = Producer(*fanning_out)
        topics = TopicCache(parts.topics)
        parts.reconnected.append(topics.clear)
        self._fifo_producer = FifoProducer(*fanning_out, Archiving(topics, parts.archives, parts.replays))
        self._producers = settings.producers
        self._movers = Movers(parts.move_tasks, queues.moving, parts.leases, parts.clock)
        replaying = Replaying(parts.replays, parts.archives, parts.topics, parts.subscriptions, self._port, parts.clock)
        self._replayers = Replayers(parts.replays, replaying, parts.leases, parts.clock)
        self.upkeep = Upkeep(
            parts.engine,
            parts.notifications,
            parts.subscriptions,
            parts.archives,
            parts.outbox,
            parts.mobile_endpoints,
            parts.leases,
            parts.clock,
        )

    @classmethod
    async def build(cls, settings: Settings, parts: Parts) -> Worker:
        identity = await parts.signing_keys.identity(parts.clock.wall_ms())
        signer = Signer(SigningIdentity(identity.key_pem, identity.certificate_pem))
        queues = queue_service(settings, parts)
        port = await queue_port(settings, parts, queues)
        return cls(settings, parts, Rendering(signer=signer, base_url=base_url(settings)), queues, port)

    async def run(self, until: asyncio.Future[None]) -> None:
        """Work until told to stop; then: take no more jobs, let sends end, give back what is left."""
        for number in range(1, self._producers + 1):
            self._loops.start(f"producer-{number}", self._producer.step)
        first, again = self._consumers
        self._loops.start("consumer", first.step)
        self._loops.start("redelivery", again.step)
        self._loops.start("fifo-producer", self._fifo_producer.step)
        self._loops.start("fifo-consumer", self._fifo_consumer.step)
        self._loops.start("upkeep", self.upkeep.step)
        self._loops.start("moves", self._movers.step)
        self._loops.start("replays", self._replayers.step)
        self._loops.start("report", self._report)
        await until
        self._port.stop_waiting()
        await self._loops.stop(cancel=("upkeep", "moves", "replays", "report"), grace_s=STEP_GRACE_S)
        await self._movers.close()
        await self._replayers.close()
        given_back = sum(await asyncio.gather(*[drain(DRAIN_S) for drain in self._drains]))
        unfinished = await self._delivery.close(1.0) + await self._redelivery.close(1.0)
        await self._port.close()
        self._events.close()
        log.info("worker.stopped", jobs_given_back=given_back, sends_unfinished=unfinished)

    async def _report(self) -> None:
        samples = [
            *self._stats.samples(),
            *self._matching.counts.samples(),
            *self._events.samples(),
            *self._parts.samples(),
            *await self._quarantine_depth(),
            Sample("sends_in_flight", self._delivery.in_flight, (("pool", "delivery"),), gauge=True),
            Sample("sends_in_flight", self._redelivery.in_flight, (("pool", "redelivery"),), gauge=True),
        ]
        await self._parts.control.report(
            Report(f"worker-{os.getpid()}", "worker", tuple(self._loops.failing), tuple(samples))
        )
        await asyncio.sleep(REPORT_S)

    async def _quarantine_depth(self) -> list[Sample]:
        """Nothing while the queues cannot be asked: that loops fail for it must be reported all the same."""
        try:
            async with asyncio.timeout(REPORT_S):
                depth = await self._port.depth(jobs.QUARANTINE)
        except (TimeoutError, StoreUnavailable, OutcomeUnknown):
            return []
        return [Sample("quarantine_depth", depth, gauge=True)]
