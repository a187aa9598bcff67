"""The API process: services over the store, behind one front door, on one port."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import structlog

import cns.api
import cqs.api
from cns.authorization import Access
from cns.delivery.webhook_secrets import WebhookSecrets
from cns.mail.pages import mail_pages
from cns.portal.links import PortalLinks
from cns.portal.retry_sender import RetrySender
from cns.queue_port.contract import QueuePort
from cns.service import NotificationService
from cns_backend.backend import Backend
from cns_backend.local_queues import LocalDelivery
from cns_backend.queue_port import access_keys, queue_port
from cns_backend.reset import ServiceReset
from cns_backend.services import (
    audit_log,
    event_log,
    notification_service,
    queue_service,
    span_recorder,
    sqs_options,
)
from cns_backend.stores.contract import ServiceState, store_process
from cns_common.activity.log import act_log
from cns_common.activity.recorder import ActRecorder
from cns_common.aws import sts
from cns_common.aws.auth.accounts import KeyRing
from cns_common.aws.auth.authentication import Authenticator
from cns_common.aws.cors import CorsPolicy
from cns_common.aws.front_door import FrontDoor, Service
from cns_common.aws.held_calls import HeldCalls
from cns_common.aws.http_request import HttpRequest
from cns_common.aws.protocol.errors import HttpAnswer
from cns_common.aws.protocol.models import load_service
from cns_common.aws.protocol.names import ServiceName
from cns_common.aws.request_counters import RequestReporter
from cns_common.configuration.settings import Settings
from cns_common.errors import CnsError, OutcomeUnknown, StoreUnavailable
from cns_common.events.audit_log import AuditLog
from cns_common.events.writer import EventLog
from cns_common.log_throttle import ThrottledRecords
from cns_common.metrics.model import Counters
from cns_common.task_cancellation import in_daemon, wait_at_most
from cns_common.traces.contract import Spans
from cns_common.traces.operations import TracedOperations
from cns_server.admin_address import AdminAddress
from cns_server.app import App, Pages
from cns_server.health import ServiceHealth, judge_health
from cns_server.http.connection_table import ConnectionLimits, ConnectionTable
from cns_server.http.protocol import ApiProtocol
from cns_server.http.trusted_proxies import TrustedProxies
from cns_server.key_refresh import KeyRefresh
from cns_server.lazy_app import LazyApp
from cns_server.lazy_apps import pages_app, portal_app, rest_app
from cns_server.listener import BACKLOG
from cns_server.localstack.pages import answer_refusal, localstack_pages
from cns_server.localstack.sns_pages import NotificationPages
from cns_server.localstack.sqs_pages import LocalstackMessages
from cns_server.metrics_access import MetricsAccess
from cns_server.no_signal_server import QuietServer
from cns_server.paths import ADMIN_PATH, PAGES_PREFIX, PORTAL_PREFIX, REST_PREFIX
from cqs.internal_api import extended_model
from cqs.messages.count_report import COUNTS_INTERVAL_S, QueueCountReporter
from cqs.service import QueueService

if TYPE_CHECKING:  # made by their first request
    from cns_server.pages.app import PagesApp

KEEP_ALIVE_S = 75
DRAIN_S = 10
CLOSE_S_MAX = 5.0
"""The time to end connections to CQS, and again to export the last spans."""
CLUSTER_CALL_S = 8.0
"""The time limit of a call in the cluster form, which may wait for servers. A sweep looks once a second, and a call
then has a second to end by itself, so it is answered within 10 s."""
RESTART_S = 5.0
"""The longest time for which a call waits for a store process that restarts."""

log = structlog.get_logger(__name__)


class Api:
    """Answers calls until told to stop, then drains."""

    def __init__(
        self,
        settings: Settings,
        backend: Backend,
        front: FrontDoor,
        events: EventLog,
        audit: AuditLog,
        port: QueuePort,
        filtering: Counters,
        queues: QueueService,
    ) -> None:
        self.on_end: list[Callable[[], None]] = []
        """Called when no call is answered any more."""
        self._settings = settings
        self._backend = backend
        self.front = front
        self._certificates: dict[str, bytes] = {}
        self._events = events
        self._audit = audit
        self._port = port
        self._filtering = filtering
        self._request_counts = RequestReporter(front.requests, events, backend.clock)
        self._queue_counts = QueueCountReporter(queues.counters, queues.cache, events, backend.clock)
        self.spans: Spans | None = None
        self.local: LocalDelivery | None = None
        pages = Pages(
            live=lambda: not front.stopping,
            leaving=lambda: front.leaving,
            health=self.health,
            metrics=self.metrics,
            shows_names=MetricsAccess(settings).admits,
            certificate=self.certificate,
            advance_clock=backend.control.advance_clock if settings.test_clock else None,
            reset=ServiceReset(backend, queues, settings.recreate_wait_s).run if settings.test_clock else None,
        )
        self._admin = AdminAddress(settings.admin_bind)
        self.app = App(front, pages, self._admin, (PAGES_PREFIX, ADMIN_PATH))

    @classmethod
    async def build(cls, settings: Settings, backend: Backend) -> Api:
        authenticator, keys = await _authenticator(settings, backend)
        audit = audit_log(settings, "api", backend.clock)
        recorder = ActRecorder(act_log(settings, "api", backend.clock), backend.clock)
        queues = await queue_service(settings, backend, audit)
        await queues.start()
        events = event_log(settings, "api", backend.clock)
        port = await queue_port(settings, backend, queues)
        spans = span_recorder(settings, "api")
        local = LocalDelivery(settings, backend, queues, events, spans)
        notifications = notification_service(settings, backend, port, events, local.queues)
        front = FrontDoor(
            _traced(settings, spans, _services(settings, queues, notifications, recorder)),
            authenticator,
            public_url=settings.public_url,
            body_bytes_max=settings.body_bytes_max,
            log_calls=settings.log_level == "debug",
            cors=CorsPolicy.of(settings.cors_origins),
            held=HeldCalls(backend.absence, limit_s=_held_s(settings), bytes_max=settings.buffered_bytes_max),
        )
        api = cls(settings, backend, front, events, audit, port, notifications.matcher.counts, queues)
        api.spans, api.local = spans, local
        api.on_end += [keys.close, recorder.close]
        api.app.add_routes(mail_pages(notifications.mail_links, settings.public_url))
        receipt_key = await backend.receipt_keys.receipt_key()
        access = Access(notifications.topic_cache, backend.subscriptions, backend.clock)
        links = PortalLinks(backend.subscriptions, access, backend.clock, receipt_key, authenticator.accepts_key)
        rest = LazyApp(lambda: rest_app(settings, backend, front, authenticator, queues, links, receipt_key, recorder))
        pages = LazyApp(lambda: pages_app(settings, backend, queues, access, api.health, rest.make()))
        api.app.mount(REST_PREFIX, rest)
        if not settings.admin_bind:
            front.landing = partial(_landing, pages)
        api.app.mount(PAGES_PREFIX, pages)
        retries, secrets = RetrySender(port, events, backend.clock), WebhookSecrets(receipt_key, backend.clock)
        portal = LazyApp(
            lambda: portal_app(settings, backend, queues, links, retries, secrets, api.certificate, recorder)
        )
        api.app.mount(PORTAL_PREFIX, portal)
        prefixes = (PAGES_PREFIX, REST_PREFIX, PORTAL_PREFIX)
        api.app.add_redirections({ADMIN_PATH: f"{PAGES_PREFIX}/", **{prefix: f"{prefix}/" for prefix in prefixes}})
        if settings.compat == "localstack":
            messages = LocalstackMessages(queues, authenticator, settings.region)
            sent = NotificationPages(
                backend.outbox,
                backend.sms,
                lambda arn: notifications.confirmations.issue(backend.subscriptions, arn),
                api.certificate,
            )
            api.app.add_exception_handler(CnsError, answer_refusal)
            api.app.add_routes(localstack_pages(api.health, messages, sent, backend.clock))
        return api

    async def serve(
        self, sockets: list[socket.socket], until: asyncio.Future[None], on_closed: Callable[[], None] = lambda: None
    ) -> None:
        """Answer calls on these sockets, and close them when no new callers are taken: `on_closed` is called then."""
        limits = self._settings
        table = ConnectionTable(
            ConnectionLimits(limits.connections_max, limits.connections_per_address_max, limits.buffered_bytes_max)
        )
        server = QuietServer(
            self._settings,
            self.app,
            table,
            http=ApiProtocol.serving(
                self.front,
                self._settings.header_bytes_max,
                table,
                _call_s(self._settings),
                proxies=TrustedProxies.of(self._settings) if self._settings.proxy_protocol == "off" else None,
                asks_certificates=self._settings.client_ca is not None,
            ),
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=DRAIN_S,
        )
        loop = asyncio.get_running_loop()
        table.start(loop)
        logging.getLogger("uvicorn.error").addFilter(
            ThrottledRecords(loop.time)
        )  # malformed requests write a line each
        certificates = asyncio.create_task(self._load_certificates())
        reports = asyncio.create_task(self._report_counts())
        serving = asyncio.create_task(server.serve(sockets=sockets))
        await asyncio.wait({serving, until}, return_when=asyncio.FIRST_COMPLETED)
        self.front.leave()
        await self._wait_for_balancers(serving)
        on_closed()
        for listening in server.servers:
            listening.close()  # at once: new callers wait for the successor, those on open connections are answered
        server.should_exit = True
        certificates.cancel()
        reports.cancel()
        await serving
        self.front.stop()
        for end in self.on_end:
            end()
        table.stop()
        await self.report_counts()
        await wait_at_most(CLOSE_S_MAX, "queue_port.close", self._port.close())
        if self.local is not None:
            await self.local.close()
        self._events.close()
        self._audit.close()
        if self.spans is not None:
            await wait_at_most(CLOSE_S_MAX, "spans.close", in_daemon(self.spans.close))

    async def _wait_for_balancers(self, serving: asyncio.Task[None]) -> None:
        """Go on answering until balancers have noticed, or the server fails."""
        await asyncio.wait({serving}, timeout=self._settings.stop_delay_s)

    async def _report_counts(self) -> None:
        while True:
            await asyncio.sleep(COUNTS_INTERVAL_S)
            try:
                await self.report_counts()
            except Exception as error:  # a bug: logged, and the next report has these counts, too
                log.error("loop.crashed", loop="counts", exc_info=error)

    async def report_counts(self) -> None:
        """Emit what was counted of requests and queues since the last call."""
        self._request_counts.report()
        await self._queue_counts.report()

    async def _load_certificates(self) -> None:
        """Serve the signing keys' certificates; the first start makes a key, which takes long, while calls are
        answered."""
        await self._backend.signing_keys.identity(self._backend.clock.real_ms())
        signing = await asyncio.to_thread(import_module, "cns.delivery.signing")
        for pem in await self._backend.signing_keys.certificates():
            self._certificates[signing.certificate_name(pem)] = pem

    # -- pages --------------------------------------------------------------------------------------------------------

    def certificate(self, name: str) -> bytes | None:
        return self._certificates.get(name)

    async def _state(self) -> ServiceState:
        try:
            return await self._backend.control.state()
        except (StoreUnavailable, OutcomeUnknown) as error:
            return ServiceState(str(error), (), ())

    async def health(self) -> ServiceHealth:
        state = await self._state()
        own = [*self._backend.samples(), *self._events.samples(), *self._audit.samples()]
        return judge_health(state, self._settings.data, own, self._backend.site())

    async def metrics(self) -> str:
        from cns_common.metrics.page import page, process_samples  # prometheus_client takes long to import

        state = await self._state()
        samples = self.front.samples()
        own = (
            *process_samples(cns.__version__),
            *self._events.samples(),
            *self._audit.samples(),
            *self._filtering.samples(),
            *(() if self.local is None else self.local.samples()),
            *self._queue_counts.samples(),
            *self._backend.samples(),
        )
        samples += [sample.labelled("process", f"api-{os.getpid()}") for sample in own]
        hosting = ("process", store_process(os.getpid()))  # these samples are among its own
        samples += [sample for sample in state.samples if hosting not in sample.labels]
        for report in state.reports:
            samples += [sample.labelled("process", report.process) for sample in report.samples]
        return page(samples)


async def _authenticator(settings: Settings, backend: Backend) -> tuple[Authenticator, KeyRefresh]:
    """Its key ring follows changes of the accounts' keys."""
    ring = KeyRing(await access_keys(settings, backend))
    refresh = KeyRefresh(ring, partial(access_keys, settings, backend))
    backend.accounts.changed.append(lambda _account: refresh.request())
    backend.reconnected.append(refresh.request)
    authenticator = Authenticator(
        ring,
        backend.clock,
        enforced=settings.auth == "on",
        region=settings.region,
        account_id=settings.account_id,
        learn_keys=refresh.learn,
    )
    return authenticator, refresh


async def _landing(pages: LazyApp[PagesApp], request: HttpRequest) -> HttpAnswer:
    """The answer to a browser that opens the address of the port."""
    return (await pages.get()).landing(request)


def _services(
    settings: Settings, queues: QueueService, notifications: NotificationService, acts: ActRecorder
) -> Mapping[ServiceName, Service]:
    return {
        "sqs": Service(
            model=extended_model(),
            operations=acts.wrap("sqs", cqs.api.operations(queues, sqs_options(settings))),
            anonymous=cqs.api.ANONYMOUS,
            extensions=cqs.api.extensions(queues),
        ),
        "sns": Service(
            model=load_service("sns"),
            operations=acts.wrap("sns", cns.api.operations(notifications)),
            anonymous=cns.api.ANONYMOUS,
        ),
        "sts": Service(model=load_service("sts"), operations=sts.operations()),
    }


def _traced(
    settings: Settings, spans: Spans | None, services: Mapping[ServiceName, Service]
) -> Mapping[ServiceName, Service]:
    if spans is None:
        return services
    traced = TracedOperations(spans, names_in_queues=settings.otel_queue_header == "on")
    return {name: replace(each, operations=traced.wrap(name, each.operations)) for name, each in services.items()}


def _call_s(settings: Settings) -> float:
    """The time limit of a call. In the embedded form none waits for another machine."""
    return CLUSTER_CALL_S if settings.store == "cassandra" else math.inf


def _held_s(settings: Settings) -> float:
    """The longest time for which a call waits for a store that is away."""
    return CLUSTER_CALL_S if settings.store == "cassandra" else RESTART_S
