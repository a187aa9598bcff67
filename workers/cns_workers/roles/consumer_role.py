"""The role `consumer`: delivers endpoint jobs, retries and lanes through the two delivery pools."""

from __future__ import annotations

from cns.delivery.envelope_cache import EnvelopeContext
from cns.delivery.observers.contract import Observers
from cns.delivery.observers.events import AttemptEvents
from cns.delivery.observers.spans import AttemptSpans
from cns.delivery.target import TargetCache
from cns_backend.delivery_logs.logger import delivery_log
from cns_backend.local_queues import envelope_context
from cns_backend.stores.contract import DELIVERY, REDELIVERY, OpenBreaker
from cns_backend.urls import base_url
from cns_common.configuration.settings import Settings
from cns_common.metrics.model import Sample
from cns_common.task_cancellation import wait_at_most
from cns_workers.consumers.consumers import Consumers
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.notification_cache import NotificationCache
from cns_workers.delivery.pool.pool import DeliveryPool
from cns_workers.delivery.pool.resize import PoolResizer
from cns_workers.delivery.senders import sender_factory
from cns_workers.delivery.service_channels import channel_context
from cns_workers.delivery.traffic.endpoint_hints import EndpointHints
from cns_workers.delivery.traffic.endpoint_state import EndpointLimits
from cns_workers.jobs.kill_points import ARMED
from cns_workers.loops import Step
from cns_workers.roles.contract import DrainResult, Role, WorkerContext

POOL_CLOSE_S = 1.0
LOG_CLOSE_S = 5.0
"""The time to write the delivery logs' last lines."""


class ConsumerRole(Role):
    sleeping_loops = ("pools", "hints")

    def __init__(self, context: WorkerContext, envelopes: EnvelopeContext) -> None:
        settings, backend = context.settings, context.backend
        self._control = backend.control
        self._delivery_log = delivery_log(settings, backend)
        make_senders = sender_factory(settings, backend.clock)
        self._delivery = DeliveryPool(DELIVERY, settings.delivery_threads, make_senders)
        self._redelivery = DeliveryPool(REDELIVERY, settings.redelivery_threads, make_senders)
        self.pools = {pool.name: pool for pool in (self._delivery, self._redelivery)}
        self.resizer = PoolResizer(backend.machine + context.process, self.pools, backend.pool_sizes, backend.clock)
        self._hints = EndpointHints(settings.endpoint_hints, backend.clock)
        self._consumers = Consumers(
            self._delivery_context(context),
            channel_context(settings, backend, context.port, envelopes),
            self._delivery,
            self._redelivery,
            _endpoint_limits(settings),
            self._hints,
        )

    @classmethod
    async def build(cls, context: WorkerContext) -> ConsumerRole:
        """Read the key that notifications are signed with; the first process of a service makes it."""
        envelopes = await envelope_context(context.settings, context.backend, base_url(context.settings))
        return cls(context, envelopes)

    def _delivery_context(self, context: WorkerContext) -> DeliveryContext:
        backend = context.backend
        targets = TargetCache(backend.topics, backend.subscriptions)
        backend.reconnected.append(targets.forget_all)
        spans = () if context.spans is None else (AttemptSpans(context.spans),)
        return DeliveryContext(
            port=context.port,
            notifications=NotificationCache(backend.notifications),
            references=context.references,
            targets=targets,
            clock=backend.clock,
            quarantine=context.quarantine,
            rates=backend.rates,
            stats=context.stats,
            client_errors_succeed=context.settings.permanent_4xx == "aws",
            observers=Observers(*ARMED, context.stats, AttemptEvents(context.events), self._delivery_log, *spans),
        )

    async def report_breakers(self) -> tuple[OpenBreaker, ...]:
        """Let the circuit breakers probe for which a person asked for it. Returns those that are open."""
        admission = self._consumers.admission
        if admission.open_breakers():
            for request in await self._control.asked_probes():
                admission.probe(request)
        return tuple(admission.open_breakers())

    def steps(self) -> dict[str, Step]:
        return {**self._consumers.steps(), "pools": self.resizer.step, "hints": self._hints.step}

    def samples(self) -> list[Sample]:
        return [
            *self._delivery_log.samples(),
            *self._consumers.samples(),
            *self._delivery.samples(),
            *self._redelivery.samples(),
        ]

    async def leave(self) -> None:
        self._consumers.stop_waiting()

    async def drain(self, grace_s: float) -> DrainResult:
        given_back = await self._consumers.drain(grace_s)
        unfinished = await self._delivery.close(POOL_CLOSE_S) + await self._redelivery.close(POOL_CLOSE_S)
        await wait_at_most(LOG_CLOSE_S, "delivery_log.close", self._delivery_log.close())
        return DrainResult(given_back, unfinished)


def _endpoint_limits(settings: Settings) -> EndpointLimits:
    return EndpointLimits(
        sends=settings.endpoint_sends,
        sends_fast=settings.endpoint_sends_fast,
        failures=settings.breaker_failures,
    )
