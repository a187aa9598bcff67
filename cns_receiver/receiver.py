"""`cns receiver`: an HTTP endpoint for testing deliveries. It confirms subscriptions, records deliveries, verifies
signatures, and on request fails, hangs, refuses, redirects, requires credentials or delays its answers.

    POST   /endpoint/ID?status=500&times=2   a delivery; the query is a behaviour, or confirm=, verify=, tag=
    GET    /endpoint/ID?n=20                 the deliveries; ?received=5&wait_s=10 waits for five
    DELETE /endpoint/ID                      forget the endpoint
    GET    /endpoint/ID/ids                  every message id and its number of arrivals; ?accepted=true: answered 2xx
    PUT    /endpoint/ID/behaviour            {"status": 500, "times": 3, "then": {"delay_ms": 2000}}; GET, DELETE
    PUT    /endpoint/ID/settings             {"confirm": "auto|manual|never", "verify": "on|off"}; GET
    POST   /endpoint/ID/confirm              confirm the waiting subscriptions
    GET    /                                 a page for people
    GET    /health
"""

from __future__ import annotations

import asyncio
import resource
import secrets
import signal
import ssl
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import uvloop

from cns_common.errors import RequestError, StartError
from cns_receiver.behaviour import (
    SUCCESS,
    Behaviour,
    BehaviourSequence,
    ConfirmMode,
    PlannedAnswer,
    ReceiverSettings,
    Switch,
    parse_query,
    plan_answer,
)
from cns_receiver.confirm import Confirmer
from cns_receiver.endpoint import Capacity, Endpoint
from cns_receiver.endpoints import Endpoints, ReceiverResource, Route, parse_target
from cns_receiver.fetch import Fetcher
from cns_receiver.http_server import Connections, IncomingRequest, ReceiverAnswer, Reply, answer
from cns_receiver.journal import Journal, read_journal
from cns_receiver.pages import ReceiverPages, refusal
from cns_receiver.record import SUBSCRIPTION_CONFIRMATION, Record, SignatureStatus
from cns_receiver.verify import Verifier

CONNECTIONS_MAX = 10_000
FILES_SPARE = 64
"""File descriptors that are kept for other files than connections."""
BACKLOG = 1_024
EXIT_CANNOT_START = 69

_JOURNAL_FAILED = PlannedAnswer(answer(500, b"the journal cannot be written", "text/plain"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions:
    confirm: ConfirmMode = "auto"
    confirm_hosts: tuple[str, ...] = ()
    """Hosts besides the loopback whose SubscribeURL and SigningCertURL may be fetched."""
    verify: Switch = "on"
    keep: int = 10_000
    """Records to keep per endpoint; its counters have no limit."""
    body_bytes: int = 4_096
    """Bytes to keep of each body."""
    journal: Path | None = None
    seed: int | None = None
    """Seed of the random numbers for `chance`; None: every run differs."""
    tls_cert: Path | None = None
    tls_key: Path | None = None


DEFAULTS = ReceiverOptions()


def run_receiver(host: str, port: int, options: ReceiverOptions = DEFAULTS) -> None:
    """Serve until a signal stops it."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(host, port, options))
    except StartError as error:
        print(f"cns: {error}", file=sys.stderr)  # noqa: T201  # for a person
        sys.exit(error.exit_code)


async def _serve(host: str, port: int, options: ReceiverOptions) -> None:
    stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stopped)
    receiver = Receiver(options)
    url = await receiver.start(host, port)
    print(f"cns receiver: deliveries go to {url}/endpoint/ID, a page is at {url}/", flush=True)  # noqa: T201  # for a person
    await stopped
    await receiver.close()


def _stop(stopped: asyncio.Future[None]) -> None:
    if not stopped.done():
        stopped.set_result(None)


class Receiver:
    """The receiver's parts, and a delivery's way through them. Make it on a running loop."""

    def __init__(self, options: ReceiverOptions = DEFAULTS) -> None:
        self._options = options
        self._defaults = ReceiverSettings(confirm=options.confirm, verify=options.verify)
        self._random = Random(options.seed).random  # noqa: S311  # no secret
        self._nonce = secrets.token_hex(16)
        self._endpoints = Endpoints(Capacity(records_max=options.keep, body_bytes_kept=options.body_bytes))
        self._fetcher = Fetcher(options.confirm_hosts)
        self._confirmer = Confirmer(self._fetcher)
        self._verifier = Verifier(self._fetcher)
        self._pages = ReceiverPages(self._endpoints, self._confirmer, self._sequence, self._forget)
        self._connections = Connections(self._handle, _connections_max())
        self._journal: Journal | None = None
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> str:
        """Listen; return the URL."""
        try:
            if self._options.journal is not None:
                self._open_journal(self._options.journal)
            context = _tls(self._options)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._connections.connect, host, port, backlog=BACKLOG, ssl=context)
        except (OSError, OverflowError, RequestError) as error:
            raise StartError(f"the receiver cannot start: {error}", EXIT_CANNOT_START) from error
        bound_port = self._server.sockets[0].getsockname()[1]
        return f"{'https' if context else 'http'}://{f'[{host}]' if ':' in host else host}:{bound_port}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._connections.close()
        if self._server is not None:
            await self._server.wait_closed()
        await self._confirmer.close()
        await self._verifier.close()
        await self._fetcher.close()
        if self._journal is not None:
            self._journal.close()

    # -- requests -----------------------------------------------------------------------------------------------------

    def _handle(self, request: IncomingRequest) -> Reply:
        if request.method == b"POST" and (route := self._endpoints.route(request.target)):
            return self._deliver(route, request)
        resource = parse_target(request.target)
        try:
            if request.method == b"POST" and resource.name and not resource.page:
                return self._deliver(self._open_route(request.target, resource), request)
            return self._pages.reply(resource, request)
        except RequestError as error:
            return refusal(error)

    def _open_route(self, target: bytes, resource: ReceiverResource) -> Route:
        behaviour, settings = parse_query(resource.query)
        sequence = None if behaviour is None else self._sequence(behaviour)
        return self._endpoints.add_route(target, Route(self._endpoints.get(resource.name), sequence, settings))

    def _deliver(self, route: Route, request: IncomingRequest) -> Reply:
        endpoint = route.endpoint
        record = endpoint.record(time.time_ns(), request)  # noqa: TID251  # the real time of a request
        settings = route.settings.over(endpoint.settings).over(self._defaults)
        if settings.verify == "on":
            self._verifier.submit(endpoint, record, request.body)
        else:
            endpoint.set_signature(record, SignatureStatus.UNCHECKED)
        plan = self._plan_answer(endpoint.sequence or route.sequence, record, request)
        record.status = plan.status
        if not self._journalled(endpoint, record):
            plan = _JOURNAL_FAILED
            record.status = plan.status
        if plan.delay_s:
            return self._answer_late(plan, settings, endpoint, record, request.body)
        self._answered(settings, endpoint, record, request.body)
        return plan.answer

    def _plan_answer(
        self, sequence: BehaviourSequence | None, record: Record, request: IncomingRequest
    ) -> PlannedAnswer:
        behaviour = sequence.next(confirming=record.confirming) if sequence else None
        return SUCCESS if behaviour is None else plan_answer(behaviour, request, self._nonce)

    async def _answer_late(
        self, plan: PlannedAnswer, settings: ReceiverSettings, endpoint: Endpoint, record: Record, body: bytes
    ) -> ReceiverAnswer | None:
        """Answer after the delay. The task is cancelled if the client disconnects: then nothing was accepted."""
        record.status = 0
        await asyncio.sleep(plan.delay_s)
        record.status = plan.status
        self._answered(settings, endpoint, record, body)
        return plan.answer

    def _answered(self, settings: ReceiverSettings, endpoint: Endpoint, record: Record, body: bytes) -> None:
        if not 200 <= record.status < 300:
            return
        endpoint.accept(record)
        if record.identity.type == SUBSCRIPTION_CONFIRMATION and settings.confirm != "never":
            self._confirmer.add(endpoint, body, confirm=settings.confirm == "auto")

    def _sequence(self, behaviour: Behaviour) -> BehaviourSequence:
        return BehaviourSequence(behaviour, self._random)

    # -- the journal --------------------------------------------------------------------------------------------------

    def _open_journal(self, path: Path) -> None:
        """Restore the counters of earlier deliveries, then append to the journal."""
        for arrived_ns, name, message_id, subscription, status in read_journal(path):
            endpoint = self._endpoints.get(name)
            if status is None:
                self._endpoints.forget(endpoint)
            else:
                endpoint.restore(arrived_ns, status, message_id, subscription)
        self._journal = Journal(path)

    def _journalled(self, endpoint: Endpoint, record: Record) -> bool:
        """Return False if the delivery should be in the journal and could not be written."""
        if self._journal is None or record.confirming:
            return True
        identity = record.identity
        return self._journal.delivered(
            record.arrived_ns, endpoint.name, identity.message_id, identity.subscription, record.status
        )

    def _forget(self, endpoint: Endpoint) -> None:
        self._endpoints.forget(endpoint)
        if self._journal is not None:
            self._journal.cleared(time.time_ns(), endpoint.name)  # noqa: TID251  # the real time of a request


def _connections_max() -> int:
    """Raise the limit of open files as far as the system allows, and return the connections that it permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return CONNECTIONS_MAX if hard == resource.RLIM_INFINITY else min(CONNECTIONS_MAX, hard - FILES_SPARE)


def _tls(options: ReceiverOptions) -> ssl.SSLContext | None:
    if options.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(options.tls_cert, options.tls_key)
    return context
