"""The API process: services over the store, behind one front door, on one port."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import structlog
import uvicorn

import cns.api
import cqs.api
from cns.delivery.signing import certificate_name
from cns.mail.pages import mail_pages
from cns.queue_port.contract import QueuePort
from cns_backend.control import HostState
from cns_backend.queue_port import access_keys, queue_port
from cns_backend.services import event_log, notification_service, queue_service, sqs_dialect
from cns_backend.store_host import Parts
from cns_common.aws import sts
from cns_common.aws.auth.accounts import KeyRing
from cns_common.aws.auth.authentication import Authenticator
from cns_common.aws.front_door import FrontDoor, Service
from cns_common.aws.protocol.models import load_service
from cns_common.configuration.settings import Settings
from cns_common.errors import StartError
from cns_common.events.writer import EventLog
from cns_common.health import Health
from cns_common.log_throttle import ThrottledRecords
from cns_common.metrics.catalogue import QUARANTINE_JOBS, REDIS_UP
from cns_common.metrics.model import Counters, Sample
from cns_common.metrics.page import page, process_samples
from cns_common.process.supervisor import STATUS_FILE, read_status
from cns_server.app import App, Pages
from cns_server.http.connection_table import ConnectionLimits, ConnectionTable
from cns_server.http.protocol import ApiProtocol
from cns_server.key_refresh import KeyRefresh
from cns_server.localstack.pages import localstack_pages
from cns_server.localstack.sns_pages import NotificationPages
from cns_server.localstack.sqs_pages import MessagePages
from cqs.internal_api import extended_model

EXIT_PORT_TAKEN = 72
EXIT_ADDRESS_UNUSABLE = 75
EXIT_TLS_UNUSABLE = 76
BACKLOG = 2_048
KEEP_ALIVE_S = 75
DRAIN_S = 10

log = structlog.get_logger(__name__)


def listen(settings: Settings, *, shared: bool) -> socket.socket:
    """Take the port, or say in one line why not."""
    try:
        info = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(info[0], socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(info[4])
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"port {settings.port} on {settings.host} is taken", EXIT_PORT_TAKEN) from None
        reason = f"cannot listen on {settings.host}:{settings.port}: {error.strerror}"
        raise StartError(reason, EXIT_ADDRESS_UNUSABLE) from None
    listener.set_inheritable(False)
    _check_tls(settings)
    return listener


def _check_tls(settings: Settings) -> None:
    """Before uvicorn does, whose complaint would be a traceback, again and again."""
    if settings.tls_cert is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key, _no_passphrase)
    except OSError as error:  # ssl.SSLError is one
        reason = f"cannot use the TLS certificate {settings.tls_cert}: {error.strerror or error}"
        raise StartError(reason, EXIT_TLS_UNUSABLE) from None


def _no_passphrase() -> NoReturn:
    """OpenSSL would ask the terminal for it, at each start."""
    raise OSError("the private key has a passphrase: give one without")


class Api:
    """Answers calls until told to stop, then drains."""

    def __init__(
        self,
        settings: Settings,
        parts: Parts,
        front: FrontDoor,
        certificates: dict[str, bytes],
        events: EventLog,
        port: QueuePort,
        filtering: Counters,
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._front = front
        self._certificates = certificates
        self._events = events
        self._port = port
        self._filtering = filtering
        pages = Pages(
            live=lambda: not front.stopping,
            health=self.health,
            metrics=self.metrics,
            certificate=self.certificate,
            advance_clock=parts.control.advance_clock if settings.test_clock else None,
        )
        self.app = App(front, pages)

    @classmethod
    async def build(cls, settings: Settings, parts: Parts) -> Api:
        ring = KeyRing(await access_keys(settings, parts))
        refresh = KeyRefresh(ring, partial(access_keys, settings, parts))
        parts.accounts.changed.append(lambda _account: refresh.request())
        parts.reconnected.append(refresh.request)
        authenticator = Authenticator(
            ring,
            parts.clock,
            enforced=settings.auth == "on",
            region=settings.region,
            account_id=settings.account_id,
        )
        queues = await queue_service(settings, parts)
        await queues.start()
        events = event_log(settings, "api", parts.clock)
        port = await queue_port(settings, parts, queues)
        notifications = notification_service(settings, parts, port, events)
        front = FrontDoor(
            {
                "sqs": Service(
                    model=extended_model(),
                    operations=cqs.api.operations(queues, sqs_dialect(settings)),
                    anonymous=cqs.api.ANONYMOUS,
                    extensions=cqs.api.extensions(queues),
                ),
                "sns": Service(
                    model=load_service("sns"), operations=cns.api.operations(notifications), anonymous=cns.api.ANONYMOUS
                ),
                "sts": Service(model=load_service("sts"), operations=sts.operations()),
            },
            authenticator,
            public_url=settings.public_url,
            body_bytes_max=settings.body_bytes_max,
            log_calls=settings.log_level == "debug",
        )
        api = cls(settings, parts, front, {}, events, port, notifications.matcher.counts)
        api.app.include_router(mail_pages(notifications.mail_links, settings.public_url))
        if settings.compat == "localstack":
            messages = MessagePages(queues, authenticator, settings.region)
            sent = NotificationPages(
                parts.outbox,
                parts.sms,
                lambda arn: notifications.confirmations.issue(parts.subscriptions, arn),
                api.certificate,
            )
            api.app.include_router(localstack_pages(api.health, messages, sent, parts.clock))
        return api

    async def serve(self, listener: socket.socket, until: asyncio.Future[None]) -> None:
        limits = self._settings
        table = ConnectionTable(
            ConnectionLimits(limits.connections_max, limits.connections_per_address_max, limits.buffered_bytes_max)
        )
        server = _Server(
            uvicorn.Config(
                self.app,
                loop="none",
                http=ApiProtocol.serving(self._front, self._settings.header_bytes_max, table),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=DRAIN_S,
                ssl_certfile=self._settings.tls_cert,
                ssl_keyfile=self._settings.tls_key,
            )
        )
        loop = asyncio.get_running_loop()
        table.start(loop)
        logging.getLogger("uvicorn.error").addFilter(ThrottledRecords(loop.time))  # what strangers send gets a line
        certificates = asyncio.create_task(self._load_certificates())
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await asyncio.wait({serving, until}, return_when=asyncio.FIRST_COMPLETED)
        self._front.stop()
        server.should_exit = True
        certificates.cancel()
        await serving
        table.stop()
        await self._port.close()
        self._events.close()

    async def _load_certificates(self) -> None:
        """Make the signing key at the first start, beside answering calls, and serve its certificate."""
        await self._parts.signing_keys.identity(self._parts.clock.real_ms())
        for pem in await self._parts.signing_keys.certificates():
            self._certificates[certificate_name(pem)] = pem

    # -- pages --------------------------------------------------------------------------------------------------------

    def certificate(self, name: str) -> bytes | None:
        return self._certificates.get(name)

    async def health(self) -> Health:
        state = await self._parts.control.state()
        return judge_health(state, self._settings.data, self._parts.samples())

    async def metrics(self) -> str:
        state = await self._parts.control.state()
        samples = self._front.samples()
        own = (
            *process_samples(cns.__version__),
            *self._events.samples(),
            *self._filtering.samples(),
            *self._parts.samples(),
        )
        samples += [sample.labelled("process", f"api-{os.getpid()}") for sample in own]
        samples += state.samples
        for report in state.reports:
            samples += [sample.labelled("process", report.process) for sample in report.samples]
        return page(samples)


def judge_health(state: HostState, data: Path, own: Sequence[Sample] = ()) -> Health:
    """Red when nothing can be stored, nothing is delivered, or a process dies again and again."""
    red = [state.store_failure] if state.store_failure else []
    if state.store_full:
        red.append(state.store_full)
    yellow = []
    processes = read_status(data / STATUS_FILE)
    for process in processes:
        if process.crash_loop:
            red.append(f"{process.name} dies again and again")
        elif process.restarts:
            yellow.append(f"{process.name} was restarted {process.restarts} times")
    workers = [report for report in state.reports if report.role == "worker"]
    if not workers:
        red.append("no worker reports: nothing is delivered")
    for report in workers:
        red += [f"the worker's {loop} loop fails" for loop in report.failing]
        if any(sample.name == QUARANTINE_JOBS.name and sample.value for sample in report.samples):
            yellow.append("jobs are in quarantine")
    if any(sample.name == REDIS_UP.name and not sample.value for sample in own):
        yellow.append("Redis does not answer: without it messages are given out more slowly")
    if state.clock_warning:
        yellow.append(state.clock_warning)
    return Health(
        "red" if red else "yellow" if yellow else "green",
        ready=bool(workers) and not state.store_failure,
        reasons=(*red, *yellow),
        processes=tuple({"name": p.name, "pid": p.pid, "restarts": p.restarts} for p in processes),
    )


class _Server(uvicorn.Server):
    """The process's own signal handling decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
