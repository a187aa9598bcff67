"""The processes of `cns up`, and the order in which they stop."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cns_backend.optional_dependencies import extra_missing
from cns_cli.service import lean_imports  # noqa: F401  # before the libraries
from cns_cli.service.processes import (
    DATA_LOCK_TIMEOUT_S,
    POLL_INTERVAL_S,
    ServiceProcess,
    read_init,
    read_settings,
    run,
)
from cns_common.configuration.settings import Settings
from cns_common.data_directory import lock_directory, lock_owner
from cns_common.errors import StartError
from cns_common.process.supervisor import EXIT_CODES_FINAL, STATUS_FILE, Child, Supervisor
from cns_common.sqlite.database import LOCK_FILE as STORE_LOCK_FILE
from cns_server.listener import EXIT_PORT_TAKEN, Listeners

LOCK_FILE = "up.lock"
if TYPE_CHECKING:
    from cns_cli.config.document import Document

STOP_S = 40.0
"""A stopping process exits by itself within 38 s, see `cns_common.process.stop_limit`. After this time it is killed."""
_HAND_OVER, _TRIAL = "_CNS_HAND_OVER", "_CNS_TRIAL"
TRIAL_S_MAX = 60.0
"""The limit for new code to show that it starts."""
REFUSED_FILE = "restart.refused"
"""The file in the data directory with the reason why a restart was refused, for `cns restart`."""
_API, _STORE, _WORKER = MODULES = ("cns_server.api", "cns_backend.store_host", "cns_workers.worker")
"""The modules that processes share. Drivers of a cluster are imported in each process: some start threads."""


class HandOver(msgspec.Struct, frozen=True):
    """The state that a `cns up` hands over to its successor in the same process, at `cns restart`."""

    lock: int | None = None
    """The file descriptor of the lock, which stays held."""
    sockets: dict[str, int] = {}
    """File descriptors by the names of `Listeners`."""
    pids: dict[str, int] = {}
    """The running processes, by name."""


def run_up(api_processes: int, workers: int, *, until_input_ends: bool) -> int:
    """Run until a signal stops it; return the exit code. Raises StartError."""
    handed_over = _read_hand_over()
    settings = read_settings()
    init = read_init(settings)
    listeners = Listeners(settings, inherited=handed_over.sockets)
    if os.environ.get(_TRIAL):  # noqa: TID251  # internal, no setting
        listeners.check()
        import_modules(MODULES)
        return 0
    missing = [path for path in (settings.data, *settings.data.parents) if not path.exists()]
    code = 0
    try:
        lock = handed_over.lock  # before a second worker can disturb a running one
        if lock is None:
            lock = lock_directory(settings.data, LOCK_FILE)
        os.set_inheritable(lock, False)
        _open(listeners, settings)  # a port in use must not touch the data
        supervisor = Supervisor(
            children(settings, lock, listeners, api_processes, workers, init),
            settings.data / STATUS_FILE,
            settings.stop_delay_s + STOP_S,
            listeners,
            sys.stdin.fileno() if until_input_ends else None,
        )
        code = supervisor.run(handed_over.pids)
        while supervisor.restart_wanted:
            os.set_inheritable(lock, True)
            refused = _execute_anew(HandOver(lock, listeners.hand_over(), supervisor.pids()))
            print(f"cns: no restart: {refused}", file=sys.stderr, flush=True)  # for a person
            with contextlib.suppress(OSError):  # a full disk must not end the service
                (settings.data / REFUSED_FILE).write_text(refused)
            code = supervisor.run({})
    except StartError as error:
        code = error.exit_code
        raise
    finally:
        if code in EXIT_CODES_FINAL:
            _remove_created(missing)
    return code


def _read_hand_over() -> HandOver:
    text = os.environ.pop(_HAND_OVER, "")  # noqa: TID251  # internal, no setting
    return msgspec.json.decode(text, type=HandOver) if text else HandOver()


def _execute_anew(hand_over: HandOver) -> str:
    """Replace this process by the installed program: it keeps the sockets and the children. Returns the reason if it
    does not start."""
    program, words = sys.executable, sys.orig_argv
    environment = {name: text for name, text in os.environ.items() if name != _TRIAL}  # noqa: TID251  # for a program
    trial = [program, *words[1:]]
    try:
        subprocess.run(  # noqa: S603  # this program
            trial, env={**environment, _TRIAL: "1"}, timeout=TRIAL_S_MAX, check=True, stderr=subprocess.PIPE, text=True
        )
        text = msgspec.json.encode(hand_over).decode()
        os.execve(program, words, {**environment, _HAND_OVER: text})  # noqa: S606  # no shell is wanted
    except subprocess.CalledProcessError as error:
        last = (error.stderr.splitlines() or ["it says nothing"])[-1]
        return f"the new code ends with {error.returncode}: {last.removeprefix('cns: ')}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the new code does not start: {error}"


def _open(listeners: Listeners, settings: Settings) -> None:
    """Open the sockets, which processes of a killed `cns up` may still hold. Raises StartError."""
    give_up_s, waiting = time.monotonic() + DATA_LOCK_TIMEOUT_S, False
    while True:
        try:
            listeners.open()
        except StartError as error:
            is_ours = error.exit_code == EXIT_PORT_TAKEN and lock_owner(settings.data, STORE_LOCK_FILE)
            if not is_ours or time.monotonic() > give_up_s:
                raise
            if not waiting:
                text = f"cns: {error}; waiting for the end of processes of the last `cns up`"
                print(text, file=sys.stderr, flush=True)  # for a person
            waiting = True
            time.sleep(POLL_INTERVAL_S)  # noqa: TID251  # another process closes them
        else:
            return


def _remove_created(directories: list[Path]) -> None:
    """Remove the empty directories that a failed start created, the innermost first."""
    with contextlib.suppress(OSError):
        for position, directory in enumerate(directories):
            if position == 0 and [entry.name for entry in directory.iterdir()] == [LOCK_FILE]:
                (directory / LOCK_FILE).unlink()
            directory.rmdir()


def children(
    settings: Settings, lock: int, listeners: Listeners, api_processes: int, workers: int, init: Document | None
) -> list[Child]:
    """Return the processes: one API process hosts the store itself, several share a store process, and in the cluster
    form there is none. Workers stop first, the store last. `lock` is the supervisor's alone."""

    def child(name: str, role: str, *modules: str, stop_rank: int) -> Child:
        work = partial(_work, role, settings, lock, listeners, init)
        return Child(
            name=name,
            work=work,
            prepare=partial(import_modules, modules),
            stop_rank=stop_rank,
            serves=role in ("api", "api-store"),
        )

    worker_processes = [child(name, "worker", _WORKER, stop_rank=0) for name in _names("worker", workers)]
    cluster = settings.store == "cassandra"
    if api_processes == 1 and not cluster:
        return [child("api", "api-store", _API, _STORE, stop_rank=1), *worker_processes]
    apis = [child(f"api-{number}", "api", _API, stop_rank=1) for number in range(1, api_processes + 1)]
    stores = [] if cluster else [child("store", "store", _STORE, stop_rank=2)]
    return [*stores, *apis, *worker_processes]


def _names(role: str, n: int) -> list[str]:
    return [role] if n == 1 else [f"{role}-{number}" for number in range(1, n + 1)]


def import_modules(modules: tuple[str, ...]) -> None:
    """Import the shared modules. Raises StartError."""
    try:
        for module in modules:
            import_module(module)
    except ModuleNotFoundError as error:
        raise extra_missing(error) from error
    gc.freeze()  # so that collections in children do not copy these pages


def _work(
    role: str,
    settings: Settings,
    lock: int,
    listeners: Listeners,
    init: Document | None,
    ready: Callable[[], None],
) -> int:
    os.close(lock)
    try:
        run(role, ServiceProcess(settings, listeners, ready, init))
    except StartError as error:
        print(f"cns: {error}", file=sys.stderr)  # for a person
        return error.exit_code
    return 0
