"""The composition roots of the service's processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import structlog
import uvloop

from cns_backend.optional_dependencies import extra_missing
from cns_backend.sites.process import end_of_work, open_site, wait_until_acting
from cns_backend.urls import base_url, write_address
from cns_common.configuration.settings import Settings, load_settings, unread_settings
from cns_common.data_directory import EXIT_DATA_IN_USE
from cns_common.errors import EXIT_CASSANDRA_UNUSABLE, EXIT_SETTINGS_WRONG, OutcomeUnknown, StartError, StoreUnavailable
from cns_common.logs import set_up_logs
from cns_common.process.gc_tuning import short_gc_pauses
from cns_common.process.stop_limit import STOP_S_MAX, end_within

if TYPE_CHECKING:
    from cns_backend.backend import Backend
    from cns_backend.sites.membership import SiteMembership
    from cns_backend.store_host import StoreHost
    from cns_cli.config.document import Document
    from cns_server.api import Api
    from cns_server.listener import Listeners
    from cns_server.standby import Standby

DATA_LOCK_TIMEOUT_S = 15.0
"""The limit for processes of a killed `cns up` to release the data directory."""
POLL_INTERVAL_S = 0.1
STORE_RETRY_S = 1.0
EXIT_STORE_LOST = 1
"""The store process restarts: the supervisor restarts this process, too."""
AUTH_OFF = "cns: --auth=off: ANY credentials pass and no policy is enforced. For tests only."
LOCALSTACK_READY = "Ready."
"""The line in LocalStack's log that programs wait for."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """The settings and sockets of a process. It calls `ready` once it works."""

    settings: Settings
    listeners: Listeners
    ready: Callable[[], None]
    init: Document | None = None
    """The file of `CNS_INIT`, as it was at the start: a process that is started again does not depend on it."""

    async def declare_accounts(self, backend: Backend) -> None:
        if self.init is not None:
            from cns_cli.config.at_start import apply_accounts  # slow to import

            await apply_accounts(self.init, self.settings, backend.accounts, backend.clock)

    async def declare_resources(self, backend: Backend, api: Api) -> None:
        """Make what the file declares, before the first call is answered. Raises StartError."""
        if self.init is not None:
            from cns_cli.config.at_start import apply_resources  # slow to import

            await apply_resources(self.init, self.settings, backend, api.front)


def main(role: str) -> None:
    """Run a process of the cluster form that has no supervisor of ours until a signal stops it. Raises StartError."""
    from cns_server.listener import Listeners

    settings = read_settings()
    run(role, ServiceProcess(settings, Listeners(settings, shared=True), lambda: None, read_init(settings)))


def read_init(settings: Settings) -> Document | None:
    """Read the file of `CNS_INIT`. Raises StartError."""
    if settings.init is None:
        return None
    from cns_cli.config.at_start import read_init_file  # slow to import

    return read_init_file(settings.init)


def read_settings() -> Settings:
    """Read the settings, and warn about unknown variables. Raises StartError."""
    settings = load_settings()
    for line in unread_settings():
        print(f"cns: {line}", file=sys.stderr)  # for a person
    return settings


def run(role: str, process: ServiceProcess) -> None:
    """Run a process of the role until a signal stops it. Raises StartError."""
    set_up_logs(process.settings.log_level, role)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(ROLES[role](process))
        except ModuleNotFoundError as error:
            raise extra_missing(error) from error


async def run_api_with_store(process: ServiceProcess) -> None:
    """Run the API process that also hosts the store: the default of the embedded form."""
    from cns_server.api import Api

    settings = process.settings
    host = await open_store(settings)
    await process.declare_accounts(host.backend)
    await print_first_key(settings, host)
    api = await Api.build(settings, host.backend)
    await process.declare_resources(host.backend, api)
    process.ready()
    with short_gc_pauses():
        await api.serve(process.listeners.duplicates(), _stop_signal(settings), process.listeners.close)
    await host.close()


async def run_store(process: ServiceProcess) -> None:
    """Run the store host alone, for several API processes."""
    process.listeners.close()
    settings = process.settings
    host = await open_store(settings)
    await process.declare_accounts(host.backend)
    await print_first_key(settings, host)
    process.ready()
    with short_gc_pauses():
        await _stop_signal(settings)
    await host.close()


async def run_api(process: ServiceProcess) -> None:
    """Run one of several API processes."""
    async with open_site(process.settings) as site:
        if site is None:
            await _serve_api(process)
            return
        stop = _stop_signal(process.settings)
        while not stop.done():
            standby = await _stand_by(process, site, stop)
            try:
                if not stop.done():
                    await _serve_api(process, stop, site, standby)
            except (StoreUnavailable, OutcomeUnknown) as error:
                log.warning("store.connection_failed", error=str(error))
                await asyncio.wait({stop}, timeout=STORE_RETRY_S)
            finally:
                await standby.stop()
            if site.leaving:
                await site.stand_by()


async def _serve_api(
    process: ServiceProcess,
    stop: asyncio.Future[None] | None = None,
    site: SiteMembership | None = None,
    standby: Standby | None = None,
) -> None:
    from cns_backend.store_client import open_backend
    from cns_server.api import Api

    settings = process.settings
    async with AsyncExitStack() as stack:
        with _start(settings, site):
            backend = await stack.enter_async_context(open_backend(settings, site))
            if settings.store == "cassandra":
                await process.declare_accounts(backend)
                await print_cluster_start(settings, backend)
            api = await Api.build(settings, backend)
            await process.declare_resources(backend, api)
        if standby is not None:
            await standby.stop()
        process.ready()

        def close_port() -> None:
            if site is None or not site.leaving:  # a process that leaves its site keeps the port
                process.listeners.close()

        end = end_of_work(site, stop or _stop_signal(settings))
        with short_gc_pauses():
            await api.serve(process.listeners.duplicates(), end, close_port)


async def _stand_by(process: ServiceProcess, site: SiteMembership, stop: asyncio.Future[None]) -> Standby:
    """Answer calls with 503 until this site is active. The returned server does so until it is stopped."""
    from cns_server.standby import Standby

    standby = Standby(process.settings, site, process.listeners.duplicates())
    standby.start()
    process.ready()
    if not site.acting.is_set():
        print(f"cns: {site.site} waits until it is the active site", flush=True)  # for a person
    await wait_until_acting(site, stop)
    return standby


async def run_worker(process: ServiceProcess) -> None:
    """Run producer, consumers, delivery pools and maintenance."""
    process.listeners.close()
    async with open_site(process.settings) as site:
        if site is None:
            await _work(process)
            return
        stop = _stop_signal(process.settings)
        while await wait_until_acting(site, stop):
            try:
                await _work(process, stop, site)
            except (StoreUnavailable, OutcomeUnknown) as error:
                log.warning("store.connection_failed", error=str(error))
                await asyncio.wait({stop}, timeout=STORE_RETRY_S)
            if site.leaving:
                await site.stand_by()


async def _work(
    process: ServiceProcess, stop: asyncio.Future[None] | None = None, site: SiteMembership | None = None
) -> None:
    from cns_backend.store_client import open_backend
    from cns_workers.worker import Worker

    settings = process.settings
    async with AsyncExitStack() as stack:
        with _start(settings, site):
            backend = await stack.enter_async_context(open_backend(settings, site))
            worker = await Worker.build(settings, backend)
        process.ready()
        with short_gc_pauses():
            await worker.run(until=end_of_work(site, stop or _stop_signal(settings)))


@contextmanager
def _start(settings: Settings, site: SiteMembership | None) -> Iterator[None]:
    """Raise StartError if the store does not answer in time at the start. With two sites, try again instead. Later
    failures of the store do not end a process."""
    try:
        yield
    except (StoreUnavailable, OutcomeUnknown) as error:
        if site is not None:
            raise
        code = EXIT_CASSANDRA_UNUSABLE if settings.store == "cassandra" else EXIT_STORE_LOST
        raise StartError(f"the store does not answer in time: {error}", code) from error


ROLES: dict[str, Callable[[ServiceProcess], Coroutine[Any, Any, None]]] = {
    "api-store": run_api_with_store,
    "store": run_store,
    "api": run_api,
    "worker": run_worker,
}


async def open_store(settings: Settings) -> StoreHost:
    """Open the store. Wait for a killed predecessor or a short command to release the data directory.

    A second `cns up` fails earlier, at its own lock.
    """
    from cns_backend.store_host import StoreHost

    give_up_s = asyncio.get_running_loop().time() + DATA_LOCK_TIMEOUT_S
    waiting = False
    while True:
        try:
            host = StoreHost(settings)
        except StartError as error:
            if error.exit_code != EXIT_DATA_IN_USE or asyncio.get_running_loop().time() > give_up_s:
                raise
            if not waiting:
                print(f"cns: {error}; waiting for its end", file=sys.stderr, flush=True)  # for a person
            waiting = True
            await asyncio.sleep(POLL_INTERVAL_S)
        else:
            await host.start()
            return host


async def print_first_key(settings: Settings, host: StoreHost) -> None:
    """Create an account at the first start and print its key, once, or write it to `first_key_file`. Raises StartError
    before there is an account if that file cannot be written."""
    from cns_cli.activity import run_recorded
    from cns_common.aws.auth.access_keys import described_key
    from cns_common.aws.auth.accounts import exports

    url = base_url(settings)
    _warn_of_auth_off(settings)
    if host.accounts.empty():
        target = _first_key_output(settings.first_key_file)
        clock = host.backend.clock
        created = host.accounts.create(clock.now_ms())
        key = await run_recorded(settings, clock, "CreateAccount", created, described_key)
        account = settings.account_id if settings.auth == "off" else key.account
        lines = exports(key, settings.region, url)
        with target as output:
            print(
                f"# account {account}; paste these lines, they are shown only now:\n{lines}",
                end="",
                file=output,
                flush=True,
            )
        if settings.first_key_file:
            print(f"cns: the keys of account {account} are in {settings.first_key_file}", flush=True)
    _announce(settings, url, str(settings.data))


def _first_key_output(path: Path | None) -> AbstractContextManager[TextIO]:
    """Open the file, or take standard output. The file may be of another user, who alone reads it."""
    if path is None:
        return nullcontext(sys.stdout)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StartError(f"CNS_FIRST_KEY_FILE: cannot write {path}: {error.strerror}", EXIT_SETTINGS_WRONG) from error
    return os.fdopen(descriptor, "a", encoding="utf-8")


async def print_cluster_start(settings: Settings, backend: Backend) -> None:
    """Print the address. No account is created: several processes may start at once."""
    _warn_of_auth_off(settings)
    if settings.auth == "on" and not await backend.accounts.accounts():
        print("cns: there are no accounts yet: `cns account create` creates one", flush=True)
    where = f"keyspace {settings.cassandra_keyspace} at {settings.cassandra}"
    _announce(settings, base_url(settings), where)


def _warn_of_auth_off(settings: Settings) -> None:
    if settings.auth == "off":
        text = f"{AUTH_OFF} Calls belong to account {settings.account_id}, or to a 12-digit access key."
        print(text, file=sys.stderr)  # for a person


def _announce(settings: Settings, url: str, data: str) -> None:
    write_address(settings)
    print(f"cns: SNS and SQS on {url}, data in {data}", flush=True)  # for a person
    if settings.compat == "localstack":
        print(LOCALSTACK_READY, flush=True)  # for programs


def _stop_signal(settings: Settings) -> asyncio.Future[None]:
    """Return a future that completes at SIGTERM or SIGINT. From then on the process has limited time to stop."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def on_signal() -> None:
        if not stop.done():
            end_within(settings.stop_delay_s + STOP_S_MAX)
            stop.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop
