"""The services that more than one kind of process builds."""

from __future__ import annotations

import os
import socket
from functools import partial
from random import random
from urllib.parse import urlsplit

import cns
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.reachability import is_unreachable
from cns.limits import Quotas
from cns.publishing.accept import CommitScope
from cns.publishing.local_queues import LocalQueues
from cns.queue_port.contract import QueuePort
from cns.service import NotificationService
from cns.subscriptions.subscribe import UrlChecks
from cns_backend.backend import Backend
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.events.audit_log import AuditLog, AuditWriter
from cns_common.events.retention import default_bytes_max
from cns_common.events.schema import EventSink
from cns_common.events.segment import SegmentLimits
from cns_common.events.writer import EventLog, NoEventLog, SegmentWriter
from cns_common.traces.contract import Spans
from cqs.localstack.options import LocalStackOptions, localstack_options
from cqs.queues.queues import QueueWaits
from cqs.service import EngineRoles, QueueService


async def queue_service(settings: Settings, backend: Backend, audit: AuditLog | None = None) -> QueueService:
    """The queue service of a process. Without `audit` it cannot serve audited queues."""
    service = QueueService(
        backend.queues,
        backend.move_tasks,
        backend.engines,
        backend.clock,
        receipt_key=await backend.receipt_keys.receipt_key(),
        audit_log=audit,
        roles=EngineRoles(backend.default_engine, backend.internal_engine),
        waits=QueueWaits(recreate_s=settings.recreate_wait_s, purge_s=settings.purge_wait_s),
    )
    service.counters.shown_max = settings.metrics_queues_max
    backend.reconnected.append(service.cache.clear)
    return service


def sqs_options(settings: Settings) -> LocalStackOptions:
    """The form of queue URLs, and LocalStack's additions to SQS under `compat=localstack`."""
    domain = urlsplit(settings.public_url).netloc
    return localstack_options(settings.sqs_endpoint_strategy, domain, localstack=settings.compat == "localstack")


def event_log(settings: Settings, process: str, clock: Clock) -> EventLog:
    """The event log of a process of this name."""
    if settings.events == "off":
        return NoEventLog()
    return SegmentWriter(settings.events_path, process, clock, _segment_limits(settings))


def audit_log(settings: Settings, process: str, clock: Clock) -> AuditLog:
    """The log of audited queues of a process of this name; `CNS_EVENTS=off` does not switch it off."""
    return AuditWriter(settings.events_path, process, clock, _segment_limits(settings))


def span_recorder(settings: Settings, process: str) -> Spans | None:
    """The span recorder of a process of this name. Without a collector: None, and OpenTelemetry is not imported."""
    if not settings.otel_endpoint:
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    from cns_common.traces.recorder import SpanRecorder

    exporter = OTLPSpanExporter(endpoint=f"{settings.otel_endpoint.rstrip('/')}/v1/traces")
    resource = {
        "service.name": settings.otel_service_name,
        "service.version": cns.__version__,
        "service.instance.id": f"{socket.gethostname()}-{process}-{os.getpid()}",
    }
    return SpanRecorder(exporter, resource, settings.otel_sample_ratio, random)


def _segment_limits(settings: Settings) -> SegmentLimits:
    return SegmentLimits(
        segment_bytes_max=settings.events_segment_bytes_max,
        segment_age_s=settings.events_segment_age_s,
        retention_s=settings.events_retention_s,
        bytes_max=settings.events_bytes_max or default_bytes_max(settings.events_path),
    )


def quotas(settings: Settings) -> Quotas:
    return Quotas(
        topics=settings.quota_topics,
        fifo_topics=settings.quota_fifo_topics,
        topic_subscriptions=settings.quota_topic_subscriptions,
        fifo_topic_subscriptions=settings.quota_fifo_topic_subscriptions,
        pending_subscriptions=settings.quota_pending_subscriptions,
        filter_policies=settings.quota_filter_policies,
        topic_filter_policies=settings.quota_topic_filter_policies,
        filter_policy_keys=settings.quota_filter_policy_keys,
        filter_policy_complexity=settings.quota_filter_policy_complexity,
        topic_replays=settings.quota_topic_replays,
    )


def notification_service(
    settings: Settings,
    backend: Backend,
    port: QueuePort,
    events: EventSink,
    local_queues: LocalQueues | None = None,
) -> NotificationService:
    guard = AddressGuard(settings.networks(), by_name=settings.names_go_to_proxy)
    reach = partial(is_unreachable, guard, proxy=settings.egress())
    service = NotificationService(
        stores=backend,
        queue=port,
        clock=backend.clock,
        events=events,
        commit=CommitScope(backend.one_commit and settings.queue_port == "inline", local_queues),
        sms_sandbox=settings.sms_sandbox == "on",
        url_checks=UrlChecks(guard.refusal, reach if settings.unreachable_endpoints == "refuse" else None),
        quotas=quotas(settings),
    )
    backend.reconnected.append(service.topic_cache.clear)
    return service
