"""Lets a process that accepts publishes deliver to queues of the same store in the commit of each publish."""

from __future__ import annotations

import asyncio
from functools import partial
from importlib import import_module

from cns.delivery.envelope_cache import EnvelopeCache, EnvelopeContext
from cns.delivery.observers.contract import Observers
from cns.delivery.observers.events import AttemptEvents
from cns.delivery.observers.metrics import DeliveryMetrics
from cns.delivery.observers.spans import AttemptSpans
from cns.delivery.remote_queues import RemoteQueueResolver
from cns.delivery.target import TargetCache
from cns.delivery.webhook_secrets import WebhookSecrets
from cns.mail.texts import MailBranding
from cns.protocols.contract import Transport
from cns.protocols.table import PROTOCOLS
from cns.publishing.local_queues import LocalQueues
from cns.queue_port.inline import InlineCommitDelivery
from cns.queue_port.sqs_delivery import QueueDeliverer
from cns_backend.backend import Backend
from cns_backend.delivery_logs.logger import LazyDeliveryLog, delivery_log
from cns_backend.urls import base_url
from cns_common.configuration.settings import Settings
from cns_common.events.schema import EventSink
from cns_common.metrics.model import Sample
from cns_common.task_cancellation import wait_at_most
from cns_common.traces.contract import Spans
from cqs.service import QueueService

LOG_CLOSE_S = 5.0
"""The time to write the delivery log's last lines."""


class LocalDelivery:
    """`queues` is None where a publish cannot deliver in its commit: where CQS is another service, or its engine has no
    transaction over several queues."""

    def __init__(
        self, settings: Settings, backend: Backend, service: QueueService, events: EventSink, spans: Spans | None
    ) -> None:
        self._metrics = DeliveryMetrics([one.name for one in PROTOCOLS.values() if one.transport is Transport.QUEUE])
        self._log = LazyDeliveryLog(partial(delivery_log, settings, backend))
        self.queues: LocalQueues | None = None
        if settings.queue_port != "inline" or not backend.engine.capabilities.atomic_settle:
            return
        targets = TargetCache(backend.topics, backend.subscriptions)
        backend.reconnected.append(targets.forget_all)
        observers = [self._metrics, AttemptEvents(events), self._log]
        self.queues = LocalQueues(
            InlineCommitDelivery(
                backend.engine, backend.clock, QueueDeliverer(service, enforced=settings.auth == "on")
            ),
            targets,
            RemoteQueueResolver(settings.remote_queues),
            _Envelopes(settings, backend).get,
            Observers(*observers, *([] if spans is None else [AttemptSpans(spans)])),
            backend.clock,
        )

    def samples(self) -> list[Sample]:
        return [*self._metrics.samples(), *self._log.samples()]

    async def close(self) -> None:
        await wait_at_most(LOG_CLOSE_S, "delivery_log.close", self._log.close())


class _Envelopes:
    def __init__(self, settings: Settings, backend: Backend) -> None:
        self._settings = settings
        self._backend = backend
        self._cache: EnvelopeCache | None = None
        self._making = asyncio.Lock()

    async def get(self) -> EnvelopeCache:
        if self._cache is None:
            async with self._making:
                if self._cache is None:
                    await asyncio.to_thread(import_module, "cns.delivery.signing")  # takes long
                    base = base_url(self._settings)
                    self._cache = EnvelopeCache(await envelope_context(self._settings, self._backend, base))
        return self._cache


async def envelope_context(settings: Settings, backend: Backend, links_url: str) -> EnvelopeContext:
    """`links_url` is the beginning of the links in messages. The first process of a service makes the signing key."""
    from cns.delivery.signing import Signer

    identity = await backend.signing_keys.identity(backend.clock.real_ms())
    words = MailBranding(sender_name=settings.mail_sender_name, footer=settings.mail_footer)
    secrets = WebhookSecrets(await backend.receipt_keys.receipt_key(), backend.clock)
    return EnvelopeContext(signer=Signer(identity), base_url=links_url, mail_words=words, webhook_secrets=secrets)
