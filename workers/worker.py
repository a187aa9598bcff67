"""The worker process: producers, consumers, two delivery pools and maintenance, over the link to the store host."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any

import structlog

import cns
from cns.archives.archiver import Archiver
from cns.archives.replay_worker import ReplayWorker
from cns.delivery import jobs
from cns.delivery.notification_references import NotificationReferences
from cns.delivery.remote_queues import RemoteQueueResolver
from cns.delivery.signing import Signer
from cns.delivery.target import TargetCache
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.contract import Request, Sender, Senders
from cns.endpoints.http import HttpRequest, HttpSender
from cns.endpoints.redis_channel import RedisRequest, RedisSender
from cns.endpoints.smtp import SmtpRequest, SmtpSender
from cns.endpoints.sqs import RemoteQueueRequest, RemoteQueueSender
from cns.mail.message import domain_of
from cns.mail.rate_limit import MailRateLimit
from cns.mail.texts import MailBranding
from cns.publishing.matching import SubscriptionMatcher
from cns.publishing.recipient_checks import RecipientChecks
from cns.queue_port.contract import QueuePort
from cns.topics.cache import TopicCache
from cns_backend.queue_port import queue_port
from cns_backend.services import event_log, queue_service
from cns_backend.store_host import Parts
from cns_backend.stores.contract import DELIVERY, REDELIVERY, REPORT_INTERVAL_S, Report
from cns_backend.urls import base_url, mail_sender
from cns_common.configuration.settings import Settings
from cns_common.configuration.smtp_url import read_smtp_url
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.metrics.catalogue import QUARANTINE_JOBS
from cns_common.metrics.model import Sample
from cns_common.metrics.page import process_samples
from cns_common.tls import client_context
from cqs.service import QueueService
from workers.background.leased_tasks import LeasedTaskRunner
from workers.background.maintenance import Maintenance
from workers.background.move_tasks import MoveTasks
from workers.background.replays import Replays
from workers.consumers.consumer import Consumer
from workers.consumers.delivery_context import DeliveryContext
from workers.consumers.fifo_consumer import FifoConsumer
from workers.consumers.lane_consumer import LaneConsumer
from workers.consumers.notification_cache import NotificationCache
from workers.consumers.quarantine import Quarantine
from workers.delivery.deliverer import Deliverer
from workers.delivery.envelope_cache import Rendering
from workers.delivery.logs.logger import delivery_log
from workers.delivery.pool.pool import DeliveryPool
from workers.delivery.pool.resize import PoolSizing
from workers.delivery.traffic.admission import AdmissionController
from workers.delivery.traffic.endpoint_state import EndpointLimits
from workers.fanout.context import FanoutContext
from workers.fanout.fifo_producer import FifoProducer
from workers.fanout.producer import Producer
from workers.loops import Loops
from workers.stats import Stats

DRAIN_S = 20.0
STEP_GRACE_S = 5.0

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
            return parts.clock.real_ms() / 1000

        verify = client_context(settings.ca_bundle)
        relay = read_smtp_url(settings.smtp_url) if settings.smtp_url else None
        sender = mail_sender(settings)

        def make_senders() -> Senders:
            timeout_s = settings.delivery_timeout_s
            http = HttpSender(guard, timeout_s=timeout_s, wall_s=wall_s, verify=verify)
            senders: dict[type[Request], Sender[Any]] = {
                HttpRequest: http,
                RedisRequest: RedisSender(guard, timeout_s=timeout_s, verify=verify),
                RemoteQueueRequest: RemoteQueueSender(http, parts.clock.real_ms),
            }
            if relay is not None:
                senders[SmtpRequest] = SmtpSender(
                    relay,
                    connections=settings.smtp_connections,
                    timeout_s=timeout_s,
                    verify=verify,
                    hello=domain_of(sender),
                )
            return Senders(senders)

        recipients = RecipientChecks(
            parts.sms, parts.mobile_endpoints, parts.platforms, in_sandbox=settings.sms_sandbox == "on"
        )
        mail_rate = MailRateLimit(parts.subscriptions, parts.clock, settings.mail_rate)
        places = RemoteQueueResolver(settings.remote_queues)

        def deliverer(pool: DeliveryPool) -> Deliverer:
            return Deliverer.build(
                pool,
                self._port,
                rendering,
                parts.outbox,
                recipients,
                mail_rate,
                settings.gateway_url,
                places,
                sender if relay else "",
            )

        self._delivery = DeliveryPool(DELIVERY, settings.delivery_threads, make_senders)
        self._redelivery = DeliveryPool(REDELIVERY, settings.redelivery_threads, make_senders)
        self.pools = {pool.name: pool for pool in (self._delivery, self._redelivery)}
        self._process = f"worker-{os.getpid()}"
        self.sizing = PoolSizing(parts.machine + self._process, self.pools, parts.pool_sizes, parts.clock)
        quarantine = Quarantine(self._port, parts.leases, parts.clock, self._stats)
        self._delivery_log = delivery_log(settings, parts)
        targets = TargetCache(parts.topics, parts.subscriptions)
        parts.reconnected.append(targets.forget_all)
        references = NotificationReferences(parts.notifications)
        context = DeliveryContext(
            port=self._port,
            notifications=NotificationCache(parts.notifications),
            references=references,
            targets=targets,
            clock=parts.clock,
            quarantine=quarantine,
            stats=self._stats,
            events=self._events,
            client_errors_succeed=settings.permanent_4xx == "aws",
            delivery_log=self._delivery_log,
        )
        self._admission = AdmissionController(
            EndpointLimits(
                sends=settings.endpoint_sends,
                sends_fast=settings.endpoint_sends_fast,
                failures=settings.breaker_failures,
            ),
            parts.clock,
        )
        self._consumers = [
            Consumer(jobs.ENDPOINT_JOBS, context, deliverer(self._delivery), self._admission),
            Consumer(jobs.REDELIVERY, context, deliverer(self._redelivery), self._admission),
        ]
        self._lanes = LaneConsumer(context, deliverer(self._redelivery), self._admission)
        self._fifo_consumer = FifoConsumer(context, deliverer(self._delivery))
        self._drains = [
            *[consumer.drain for consumer in self._consumers],
            self._lanes.drain,
            self._fifo_consumer.drain,
        ]
        self._matcher = SubscriptionMatcher(parts.subscriptions, parts.clock, self._events)
        fanout = FanoutContext(
            port=self._port,
            matcher=self._matcher,
            notifications=parts.notifications,
            references=references,
            quarantine=quarantine,
            stats=self._stats,
            events=self._events,
            clock=parts.clock,
        )
        self._producer = Producer(fanout)
        topics = TopicCache(parts.topics)
        parts.reconnected.append(topics.clear)
        self._fifo_producer = FifoProducer(fanout, Archiver(topics, parts.archives, parts.replays))
        self._producers = settings.producers
        self._move_tasks = LeasedTaskRunner(
            MoveTasks(parts.move_tasks, queues.mover, parts.clock), parts.leases, parts.clock
        )
        replay_worker = ReplayWorker(
            parts.replays, parts.archives, parts.topics, parts.subscriptions, self._port, parts.clock
        )
        self._replays = LeasedTaskRunner(Replays(parts.replays, replay_worker), parts.leases, parts.clock)
        swept = (parts.notifications, parts.subscriptions, parts.archives, parts.outbox, parts.mobile_endpoints)
        self.maintenance = Maintenance(tuple(parts.engines.values()), swept, parts.leases, parts.clock)

    @classmethod
    async def build(cls, settings: Settings, parts: Parts) -> Worker:
        identity = await parts.signing_keys.identity(parts.clock.real_ms())
        signer = Signer(identity)
        queues = await queue_service(settings, parts)
        port = await queue_port(settings, parts, queues)
        words = MailBranding(sender_name=settings.mail_sender_name, footer=settings.mail_footer)
        rendering = Rendering(signer=signer, base_url=base_url(settings), mail_words=words)
        return cls(settings, parts, rendering, queues, port)

    async def run(self, until: asyncio.Future[None]) -> None:
        """Work until told to stop; then: take no more jobs, let sends end, give back what is left."""
        for number in range(1, self._producers + 1):
            self._loops.start(f"producer-{number}", self._producer.step)
        first, again = self._consumers
        self._loops.start("consumer", first.step)
        self._loops.start("redelivery", again.step)
        self._loops.start("lanes", self._lanes.step)
        self._loops.start("fifo-producer", self._fifo_producer.step)
        self._loops.start("fifo-consumer", self._fifo_consumer.step)
        self._loops.start("maintenance", self.maintenance.step)
        self._loops.start("moves", self._move_tasks.step)
        self._loops.start("replays", self._replays.step)
        self._loops.start("pools", self.sizing.step)
        self._loops.start("report", self._report)
        await until
        self._port.stop_waiting()
        await self._loops.stop(cancel=("maintenance", "moves", "replays", "pools", "report"), grace_s=STEP_GRACE_S)
        await self._move_tasks.close()
        await self._replays.close()
        self._admission.stop()
        await self._retire()
        given_back = sum(await asyncio.gather(*[drain(DRAIN_S) for drain in self._drains]))
        unfinished = await self._delivery.close(1.0) + await self._redelivery.close(1.0)
        await self._port.close()
        self._events.close()
        await self._delivery_log.close()
        log.info("worker.stopped", jobs_given_back=given_back, sends_unfinished=unfinished)

    async def _report(self) -> None:
        samples = [
            *process_samples(cns.__version__),
            *self._stats.samples(),
            *self._stats.latency.samples(),
            *self._delivery_log.samples(),
            *self._admission.samples(),
            *self._lanes.samples(),
            *self._matcher.counts.samples(),
            *self._events.samples(),
            *self._parts.samples(),
            *await self._quarantine_depth(),
            *self._delivery.samples(),
            *self._redelivery.samples(),
        ]
        await self._parts.control.report(
            Report(self._process, "worker", tuple(self._loops.failing), tuple(samples), self.sizing.states())
        )
        await asyncio.sleep(REPORT_INTERVAL_S)

    async def _retire(self) -> None:
        """A report of one that is gone ends by itself; until then, its pools would be waited for."""
        with suppress(TimeoutError, StoreUnavailable, OutcomeUnknown):
            async with asyncio.timeout(REPORT_INTERVAL_S):
                await self._parts.control.retire(self._process)

    async def _quarantine_depth(self) -> list[Sample]:
        """Nothing while the queues cannot be asked: that loops fail for it must be reported all the same."""
        try:
            async with asyncio.timeout(REPORT_INTERVAL_S):
                depth = await self._port.depth(jobs.QUARANTINE)
        except (TimeoutError, StoreUnavailable, OutcomeUnknown):
            return []
        return [QUARANTINE_JOBS.sample(depth)]
