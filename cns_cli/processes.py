"""The composition roots: what each process of the service is made of. `python -m cns_cli.processes ROLE` runs one."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn

import structlog
import uvloop

from cns_backend.optional_dependencies import extra_missing
from cns_backend.urls import base_url, write_address
from cns_common.configuration.settings import Settings, load_settings, unread_settings
from cns_common.data_directory import EXIT_DATA_IN_USE
from cns_common.errors import StartError
from cns_common.logs import set_up_logs
from cns_common.process.cpu_affinity import pinned_to_one_core
from cns_common.process.gc_tuning import short_gc_pauses

if TYPE_CHECKING:
    from cns_backend.store_host import Parts, StoreHost

PREDECESSOR_S = 15.0
"""How long the processes of a `cns up` that was killed may take to end, when it is started again at once."""
POLL_INTERVAL_S = 0.1
TELLING_ROLES = ("api-store", "store")
"""Those of a `cns up` of which there is one."""
AUTH_OFF = "cns: --auth=off: ANY credentials pass and no policy is enforced. For tests only."
LOCALSTACK_READY = "Ready."
"""The line of LocalStack's log that is waited for."""

log = structlog.get_logger(__name__)


def main(role: str, *, supervised: bool = False) -> None:
    """Run one process until a signal stops it. `supervised` leaves what is wrong with the settings, which all processes
    of a `cns up` share, to the supervisor."""
    gc.disable()  # until all is built
    settings = _settings(role, supervised=supervised)
    try:
        set_up_logs(settings.log_level, role)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(ROLES[role](settings))
            except ModuleNotFoundError as error:
                raise extra_missing(error) from error
    except StartError as error:
        _end(error)


def _settings(role: str, *, supervised: bool) -> Settings:
    try:
        settings = load_settings()
    except StartError as error:
        if supervised:
            sys.exit(error.exit_code)
        _end(error)
    if not supervised or role in TELLING_ROLES or (role, settings.store) == ("api", "cassandra"):
        for line in unread_settings():
            print(f"cns: {line}", file=sys.stderr)  # for the person who started it
    return settings


def _end(error: StartError) -> NoReturn:
    print(f"cns: {error}", file=sys.stderr)  # for the person who started it
    sys.exit(error.exit_code)


async def run_api_with_store(settings: Settings) -> None:
    """The embedded default: one process answers calls and hosts the store."""
    from cns_server.api import Api
    from cns_server.listener import listen

    listener = listen(settings, shared=False)  # a taken port must not touch the data
    host = await open_store(settings)
    await print_first_key(settings, host)
    api = await Api.build(settings, host.parts)
    with short_gc_pauses():
        await api.serve(listener, until=_stop_signal())
    await host.close()


async def run_store(settings: Settings) -> None:
    """The store host alone, for several API processes."""
    from cns_server.listener import listen

    listener = listen(settings, shared=True)  # holds the port while API processes come and go
    host = await open_store(settings)
    await print_first_key(settings, host)
    with short_gc_pauses():
        await _stop_signal()
    await host.close()
    listener.close()


async def run_api(settings: Settings) -> None:
    """One of several API processes on one port."""
    from cns_backend.store_host import open_parts
    from cns_server.api import Api
    from cns_server.listener import listen

    async with open_parts(settings) as parts:
        if settings.store == "cassandra":
            await print_cluster_start(settings, parts)
        api = await Api.build(settings, parts)
        with short_gc_pauses():
            await api.serve(listen(settings, shared=True), until=_stop_signal())


async def run_worker(settings: Settings) -> None:
    """Producer, consumers, delivery pools and maintenance."""
    from cns_backend.store_host import open_parts
    from workers.worker import Worker

    async with open_parts(settings) as parts:
        worker = await Worker.build(settings, parts)
        with short_gc_pauses(), pinned_to_one_core(wanted=settings.worker_one_core):
            await worker.run(until=_stop_signal())


ROLES: dict[str, Callable[[Settings], Coroutine[Any, Any, None]]] = {
    "api-store": run_api_with_store,
    "store": run_store,
    "api": run_api,
    "worker": run_worker,
}


async def open_store(settings: Settings) -> StoreHost:
    """Two of `cns up` cannot meet here, but one and what is left of the last, or a command that is soon done."""
    from cns_backend.store_host import StoreHost

    give_up_s = asyncio.get_running_loop().time() + PREDECESSOR_S
    waiting = False
    while True:
        try:
            host = StoreHost(settings)
        except StartError as error:
            if error.exit_code != EXIT_DATA_IN_USE or asyncio.get_running_loop().time() > give_up_s:
                raise
            if not waiting:
                print(f"cns: {error}; waiting for its end", file=sys.stderr, flush=True)  # as above
            waiting = True
            await asyncio.sleep(POLL_INTERVAL_S)
        else:
            await host.start()
            return host


async def print_first_key(settings: Settings, host: StoreHost) -> None:
    """The first start makes an account, and says once how to use it."""
    from cns_common.aws.auth.accounts import exports

    url = base_url(settings)
    _warn_of_auth_off(settings)
    if host.accounts.empty():
        key = await host.accounts.create(host.parts.clock.now_ms())
        account = settings.account_id if settings.auth == "off" else key.account
        print(f"# account {account}; paste these lines, they are shown only now:")
        print(exports(key, settings.region, url), end="", flush=True)
    _announce(settings, url, str(settings.data))


async def print_cluster_start(settings: Settings, parts: Parts) -> None:
    """Nobody makes accounts here unasked: several processes may start at once."""
    _warn_of_auth_off(settings)
    if settings.auth == "on" and not await parts.accounts.accounts():
        print("cns: there are no accounts yet: `cns account create` makes one", flush=True)
    where = f"keyspace {settings.cassandra_keyspace} at {settings.cassandra}"
    _announce(settings, base_url(settings), where)


def _warn_of_auth_off(settings: Settings) -> None:
    if settings.auth == "off":
        text = f"{AUTH_OFF} Calls are of account {settings.account_id}, or of the access key that is 12 digits."
        print(text, file=sys.stderr)  # for the person who started it


def _announce(settings: Settings, url: str, data: str) -> None:
    write_address(settings)
    print(f"cns: SNS and SQS on {url}, data in {data}", flush=True)  # for the person who started it
    if settings.compat == "localstack":
        print(LOCALSTACK_READY, flush=True)  # for the programs that wait for it


def _stop_signal() -> asyncio.Future[None]:
    """Done once a signal asks this process to stop."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def on_signal() -> None:
        if not stop.done():
            stop.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop


if __name__ == "__main__":
    main(sys.argv[1], supervised=True)
