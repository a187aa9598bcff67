"""The worker process: producers, consumers, two delivery pools and maintenance, over the link to the store host."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import structlog

import cns
from cns.archives.archiver import Archiver
from cns.archives.replay_worker import ReplayWorker
from cns.delivery import jobs
from cns.delivery.notification_references import NotificationReferences
from cns.delivery.remote_queues import RemoteQueueResolver
from cns.delivery.signing import Signer
from cns.delivery.target import TargetCache
from cns.mail.rate_limit import MailRateLimit
from cns.mail.texts import MailBranding
from cns.publishing.matching import SubscriptionMatcher
from cns.publishing.recipient_checks import RecipientChecks
from cns.queue_port.contract import QueuePort
from cns.topics.cache import TopicCache
from cns_backend.backend import Backend
from cns_backend.queue_port import queue_port
from cns_backend.services import event_log, queue_service
from cns_backend.stores.contract import DELIVERY, REDELIVERY, REPORT_INTERVAL_S, Report
from cns_backend.urls import base_url, mail_sender
from cns_common.configuration.settings import Settings
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.metrics.catalogue import QUARANTINE_JOBS
from cns_common.metrics.model import Sample
from cns_common.metrics.page import process_samples
from cqs.service import QueueService
from workers.background.leased_tasks import LeasedTaskRunner
from workers.background.maintenance import Maintenance
from workers.background.move_tasks import MoveTasks
from workers.background.replays import Replays
from workers.consumers.consumers import Consumers
from workers.consumers.delivery_context import DeliveryContext
from workers.consumers.notification_cache import NotificationCache
from workers.delivery.channels import ChannelContext
from workers.delivery.envelope_cache import EnvelopeContext
from workers.delivery.logs.logger import delivery_log
from workers.delivery.pool.pool import DeliveryPool
from workers.delivery.pool.resize import PoolResizer
from workers.delivery.senders import sender_factory
from workers.delivery.traffic.endpoint_state import EndpointLimits
from workers.fanout.context import FanoutContext
from workers.fanout.fifo_producer import FifoProducer
from workers.fanout.producer import Producer
from workers.jobs.quarantine import Quarantine
from workers.loops import Loops
from workers.stats import Stats

DRAIN_S = 20.0
STEP_GRACE_S = 5.0
SLEEPING_LOOPS = ("maintenance", "moves", "replays", "pools", "report")
"""Loops that sleep between their steps, so that a stop cancels them."""

log = structlog.get_logger(__name__)


class Worker:
    def __init__(
        self, settings: Settings, backend: Backend, envelopes: EnvelopeContext, queues: QueueService, port: QueuePort
    ) -> None:
        self._backend = backend
        self._port = port
        self._stats = Stats()
        self._events = event_log(settings, "worker", backend.clock)
        self._delivery_log = delivery_log(settings, backend)
        self._loops = Loops()
        self._process = f"worker-{os.getpid()}"

        make_senders = sender_factory(settings, backend.clock)
        self._delivery = DeliveryPool(DELIVERY, settings.delivery_threads, make_senders)
        self._redelivery = DeliveryPool(REDELIVERY, settings.redelivery_threads, make_senders)
        self.pools = {pool.name: pool for pool in (self._delivery, self._redelivery)}
        self.resizer = PoolResizer(backend.machine + self._process, self.pools, backend.pool_sizes, backend.clock)

        context = self._delivery_context(settings)
        channels = _channel_context(settings, backend, port, envelopes)
        self._consumers = Consumers(context, channels, self._delivery, self._redelivery, _endpoint_limits(settings))

        self._matcher = SubscriptionMatcher(backend.subscriptions, backend.clock, self._events)
        topics = TopicCache(backend.topics)
        backend.reconnected.append(topics.clear)
        fanout = self._fanout_context(context)
        self._producer = Producer(fanout)
        self._fifo_producer = FifoProducer(fanout, Archiver(topics, backend.archives, backend.replays))
        self._producers = settings.producers

        self._move_tasks = LeasedTaskRunner(
            MoveTasks(backend.move_tasks, queues.mover, backend.clock), backend.leases, backend.clock
        )
        replay_worker = ReplayWorker(
            backend.replays, backend.archives, backend.topics, backend.subscriptions, port, backend.clock
        )
        self._replays = LeasedTaskRunner(Replays(backend.replays, replay_worker), backend.leases, backend.clock)
        swept = (
            backend.notifications,
            backend.subscriptions,
            backend.archives,
            backend.outbox,
            backend.mobile_endpoints,
        )
        self.maintenance = Maintenance(tuple(backend.engines.values()), swept, backend.leases, backend.clock)

    @classmethod
    async def build(cls, settings: Settings, backend: Backend) -> Worker:
        identity = await backend.signing_keys.identity(backend.clock.real_ms())
        queues = await queue_service(settings, backend)
        port = await queue_port(settings, backend, queues)
        words = MailBranding(sender_name=settings.mail_sender_name, footer=settings.mail_footer)
        envelopes = EnvelopeContext(signer=Signer(identity), base_url=base_url(settings), mail_words=words)
        return cls(settings, backend, envelopes, queues, port)

    def _delivery_context(self, settings: Settings) -> DeliveryContext:
        backend = self._backend
        targets = TargetCache(backend.topics, backend.subscriptions)
        backend.reconnected.append(targets.forget_all)
        return DeliveryContext(
            port=self._port,
            notifications=NotificationCache(backend.notifications),
            references=NotificationReferences(backend.notifications),
            targets=targets,
            clock=backend.clock,
            quarantine=Quarantine(self._port, backend.leases, backend.clock, self._stats),
            stats=self._stats,
            events=self._events,
            client_errors_succeed=settings.permanent_4xx == "aws",
            delivery_log=self._delivery_log,
        )

    def _fanout_context(self, delivery: DeliveryContext) -> FanoutContext:
        return FanoutContext(
            port=self._port,
            matcher=self._matcher,
            notifications=self._backend.notifications,
            references=delivery.references,
            quarantine=delivery.quarantine,
            stats=self._stats,
            events=self._events,
            clock=self._backend.clock,
        )

    async def run(self, until: asyncio.Future[None]) -> None:
        """Work until `until` is done. Then take no more jobs, let sends end, and give back the rest."""
        for number in range(1, self._producers + 1):
            self._loops.start(f"producer-{number}", self._producer.step)
        self._loops.start("fifo-producer", self._fifo_producer.step)
        for name, step in self._consumers.steps().items():
            self._loops.start(name, step)
        self._loops.start("maintenance", self.maintenance.step)
        self._loops.start("moves", self._move_tasks.step)
        self._loops.start("replays", self._replays.step)
        self._loops.start("pools", self.resizer.step)
        self._loops.start("report", self._report)
        await until
        self._port.stop_waiting()
        await self._loops.stop(cancel=SLEEPING_LOOPS, grace_s=STEP_GRACE_S)
        await self._move_tasks.close()
        await self._replays.close()
        self._consumers.stop_waiting()
        await self._retire()
        given_back = await self._consumers.drain(DRAIN_S)
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
            *self._consumers.samples(),
            *self._matcher.counts.samples(),
            *self._events.samples(),
            *self._backend.samples(),
            *await self._quarantine_depth(),
            *self._delivery.samples(),
            *self._redelivery.samples(),
        ]
        await self._backend.control.report(
            Report(self._process, "worker", tuple(self._loops.failing), tuple(samples), self.resizer.states())
        )
        await asyncio.sleep(REPORT_INTERVAL_S)

    async def _retire(self) -> None:
        """Withdraw the last report. It would expire by itself, but until then commands would wait for these pools."""
        with suppress(TimeoutError, StoreUnavailable, OutcomeUnknown):
            async with asyncio.timeout(REPORT_INTERVAL_S):
                await self._backend.control.retire(self._process)

    async def _quarantine_depth(self) -> list[Sample]:
        """Returns no sample while the queues cannot be asked: the report of failing loops must still go out."""
        try:
            async with asyncio.timeout(REPORT_INTERVAL_S):
                depth = await self._port.depth(jobs.QUARANTINE)
        except (TimeoutError, StoreUnavailable, OutcomeUnknown):
            return []
        return [QUARANTINE_JOBS.sample(depth)]


def _channel_context(
    settings: Settings, backend: Backend, port: QueuePort, envelopes: EnvelopeContext
) -> ChannelContext:
    in_sandbox = settings.sms_sandbox == "on"
    return ChannelContext(
        port=port,
        envelopes=envelopes,
        outbox=backend.outbox,
        recipients=RecipientChecks(backend.sms, backend.mobile_endpoints, backend.platforms, in_sandbox=in_sandbox),
        mail_rate=MailRateLimit(backend.subscriptions, backend.clock, settings.mail_rate),
        remote_queues=RemoteQueueResolver(settings.remote_queues),
        gateway_url=settings.gateway_url,
        mail_sender=mail_sender(settings) if settings.smtp_url else "",
    )


def _endpoint_limits(settings: Settings) -> EndpointLimits:
    return EndpointLimits(
        sends=settings.endpoint_sends,
        sends_fast=settings.endpoint_sends_fast,
        failures=settings.breaker_failures,
    )
