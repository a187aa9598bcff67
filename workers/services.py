"""The services that more than one process builds over its parts."""

from __future__ import annotations

from cns.endpoints.guard import AddressGuard
from cns.queue_delivery import QueueDeliverer
from cns.queue_inline import InlineQueuePort
from cns.queue_port import QueuePort
from cns.service import NotificationService
from common.settings import Settings
from cqs.service import QueueService
from workers.host import Parts


def queue_service(settings: Settings, parts: Parts) -> QueueService:
    service = QueueService(
        parts.queues,
        {"embedded": parts.engine},
        parts.clock,
        default_engine=settings.engine,
        recreate_wait_s=settings.recreate_wait_s,
    )
    parts.reconnected.append(service.cache.clear)
    return service


def inline_port(settings: Settings, parts: Parts, queues: QueueService) -> InlineQueuePort:
    deliverer = QueueDeliverer(queues, parts.clock, enforced=settings.auth == "on")
    return InlineQueuePort(parts.engine, parts.clock, deliverer.deliver)


def notification_service(settings: Settings, parts: Parts, port: QueuePort) -> NotificationService:
    service = NotificationService(
        topics=parts.topics,
        subscriptions=parts.subscriptions,
        notifications=parts.notifications,
        queue=port,
        clock=parts.clock,
        check_endpoint=AddressGuard(settings.networks()).refusal,
    )
    parts.reconnected.append(service.topic_cache.clear)
    return service
