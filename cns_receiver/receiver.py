"""`cns receiver`: an HTTP endpoint to try out and test deliveries with. It confirms subscriptions, records what comes,
verifies signatures, and on command fails, hangs, refuses, redirects, asks for credentials or is slow.

    POST   /endpoint/ID?status=500&times=2   a delivery; the query is a behaviour, or confirm=, verify=, tag=
    GET    /endpoint/ID?n=20                 what came; with ?received=5&wait_s=10 only once five have come
    DELETE /endpoint/ID                      forget it all
    GET    /endpoint/ID/ids                  every message id that came, and how often; ?accepted=true: answered 2xx
    PUT    /endpoint/ID/behaviour            {"status": 500, "times": 3, "then": {"delay_ms": 2000}}; GET, DELETE
    PUT    /endpoint/ID/settings             {"confirm": "auto|manual|never", "verify": "on|off"}; GET
    POST   /endpoint/ID/confirm              confirm what waits for it
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
from cns_receiver.behaviour import WELL, Behaviour, ConfirmMode, Plan, Script, Settings, Switch, of_query, plan_of
from cns_receiver.confirm import Confirmer
from cns_receiver.endpoints import Endpoints, Place, Route, place_of
from cns_receiver.fetch import Fetcher
from cns_receiver.http_server import Answer, Connections, Reply, Request, answer
from cns_receiver.journal import Journal, read_journal
from cns_receiver.mailbox import Mailbox, Room
from cns_receiver.pages import Pages, refusal
from cns_receiver.record import SUBSCRIPTION_CONFIRMATION, Record, Verdict
from cns_receiver.verify import Verifier

CONNECTIONS_MAX = 10_000
FILES_SPARE = 64
"""Of the files this process may open, those that are no connections."""
BACKLOG = 1_024
EXIT_CANNOT_START = 69

_JOURNAL_FAILED = Plan(answer(500, b"the journal cannot be written", "text/plain"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    confirm: ConfirmMode = "auto"
    confirm_hosts: tuple[str, ...] = ()
    """Hosts besides the loopback whose SubscribeURL and SigningCertURL may be visited."""
    verify: Switch = "on"
    keep: int = 10_000
    """Records of one endpoint; its counts go on."""
    body_bytes: int = 4_096
    """Kept of each body."""
    journal: Path | None = None
    seed: int | None = None
    """What `chance` draws from; unset: every run differs."""
    tls_cert: Path | None = None
    tls_key: Path | None = None


DEFAULTS = Options()


def run_receiver(host: str, port: int, options: Options = DEFAULTS) -> None:
    """Serve until a signal comes."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(host, port, options))
    except StartError as error:
        print(f"cns: {error}", file=sys.stderr)  # noqa: T201  # for the person who started it
        sys.exit(error.exit_code)


async def _serve(host: str, port: int, options: Options) -> None:
    stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stopped)
    receiver = Receiver(options)
    url = await receiver.start(host, port)
    print(f"cns receiver: deliveries go to {url}/endpoint/ID, a page is at {url}/", flush=True)  # noqa: T201  # for the person who started it
    await stopped
    await receiver.close()


def _stop(stopped: asyncio.Future[None]) -> None:
    if not stopped.done():
        stopped.set_result(None)


class Receiver:
    """The parts, and the way of a delivery through them. To be made on a running loop."""

    def __init__(self, options: Options = DEFAULTS) -> None:
        self._options = options
        self._defaults = Settings(confirm=options.confirm, verify=options.verify)
        self._random = Random(options.seed).random  # noqa: S311  # no secret
        self._nonce = secrets.token_hex(16)
        self._endpoints = Endpoints(Room(records_max=options.keep, body_bytes_kept=options.body_bytes))
        self._fetcher = Fetcher(options.confirm_hosts)
        self._confirmer = Confirmer(self._fetcher)
        self._verifier = Verifier(self._fetcher)
        self._pages = Pages(self._endpoints, self._confirmer, self._script_of, self._forget)
        self._connections = Connections(self._handle, _connections_max())
        self._journal: Journal | None = None
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> str:
        """Listen; the URL at which."""
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

    def _handle(self, request: Request) -> Reply:
        if request.method == b"POST" and (route := self._endpoints.known(request.target)):
            return self._deliver(route, request)
        place = place_of(request.target)
        try:
            if request.method == b"POST" and place.name and not place.page:
                return self._deliver(self._open_route(request.target, place), request)
            return self._pages.reply(place, request)
        except RequestError as error:
            return refusal(error)

    def _open_route(self, target: bytes, place: Place) -> Route:
        behaviour, settings = of_query(place.query)
        script = None if behaviour is None else self._script_of(behaviour)
        return self._endpoints.add_route(target, Route(self._endpoints.mailbox(place.name), script, settings))

    def _deliver(self, route: Route, request: Request) -> Reply:
        mailbox = route.mailbox
        record = mailbox.record(time.time_ns(), request)  # noqa: TID251  # the real time of a request
        settings = route.settings.over(mailbox.settings).over(self._defaults)
        if settings.verify == "on":
            self._verifier.submit(mailbox, record, request.body)
        else:
            mailbox.judge(record, Verdict.UNCHECKED)
        plan = self._plan(mailbox.script or route.script, record, request)
        record.status = plan.status
        if not self._journalled(mailbox, record):
            plan = _JOURNAL_FAILED
            record.status = plan.status
        if plan.delay_s:
            return self._answer_late(plan, settings, mailbox, record, request.body)
        self._answered(settings, mailbox, record, request.body)
        return plan.answer

    def _plan(self, script: Script | None, record: Record, request: Request) -> Plan:
        behaviour = script.next(confirming=record.confirming) if script else None
        return WELL if behaviour is None else plan_of(behaviour, request, self._nonce)

    async def _answer_late(
        self, plan: Plan, settings: Settings, mailbox: Mailbox, record: Record, body: bytes
    ) -> Answer | None:
        """Cancelled when the client goes: then nothing was accepted."""
        record.status = 0
        await asyncio.sleep(plan.delay_s)
        record.status = plan.status
        self._answered(settings, mailbox, record, body)
        return plan.answer

    def _answered(self, settings: Settings, mailbox: Mailbox, record: Record, body: bytes) -> None:
        if not 200 <= record.status < 300:
            return
        mailbox.accept(record)
        if record.identity.type == SUBSCRIPTION_CONFIRMATION and settings.confirm != "never":
            self._confirmer.note(mailbox, body, visit=settings.confirm == "auto")

    def _script_of(self, behaviour: Behaviour) -> Script:
        return Script(behaviour, self._random)

    # -- the journal --------------------------------------------------------------------------------------------------

    def _open_journal(self, path: Path) -> None:
        """Count what was delivered before, then go on writing."""
        for arrived_ns, name, message_id, subscription, status in read_journal(path):
            mailbox = self._endpoints.mailbox(name)
            if status is None:
                self._endpoints.forget(mailbox)
            else:
                mailbox.restore(arrived_ns, status, message_id, subscription)
        self._journal = Journal(path)

    def _journalled(self, mailbox: Mailbox, record: Record) -> bool:
        """False when it should have been written and could not be."""
        if self._journal is None or record.confirming:
            return True
        identity = record.identity
        return self._journal.delivered(
            record.arrived_ns, mailbox.name, identity.message_id, identity.subscription, record.status
        )

    def _forget(self, mailbox: Mailbox) -> None:
        self._endpoints.forget(mailbox)
        if self._journal is not None:
            self._journal.cleared(time.time_ns(), mailbox.name)  # noqa: TID251  # the real time of a request


def _connections_max() -> int:
    """As many as files may be opened, which is first raised to what the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return CONNECTIONS_MAX if hard == resource.RLIM_INFINITY else min(CONNECTIONS_MAX, hard - FILES_SPARE)


def _tls(options: Options) -> ssl.SSLContext | None:
    if options.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(options.tls_cert, options.tls_key)
    return context
