"""Hosts the worker inside a Celery worker process, on a thread and an event loop that do not depend on the broker."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
import uvloop
from celery import bootsteps
from celery.concurrency import solo, thread
from celery.exceptions import ImproperlyConfigured
from celery.platforms import EX_FAILURE
from celery.worker import state

from cns_backend.sites.process import end_of_work, open_site, wait_until_acting
from cns_backend.store_client import open_backend
from cns_common.configuration.settings import Settings, load_settings, unread_settings
from cns_common.errors import OutcomeUnknown, StartError, StoreUnavailable
from cns_common.process.gc_tuning import short_gc_pauses
from cns_common.process.stop_limit import STOP_S_MAX, end_within
from cns_workers.celery.queues import queues_of
from cns_workers.celery.triggers import TaskTriggers
from cns_workers.worker import Worker

if TYPE_CHECKING:
    from cns_backend.sites.membership import SiteMembership

STORE_RETRY_S = 1.0
POLL_INTERVAL_S = 0.1
CELERY_END_TIMEOUT_S = 5.0
"""The longest time that Celery may take to end after the worker ended."""
POOLS = (thread.TaskPool, solo.TaskPool)
"""Celery's pools that run tasks in the worker's own process."""

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")


class HostStep(bootsteps.StartStopStep):
    """Starts before Celery connects to its broker, and stops after Celery disconnected."""

    def create(self, parent: Any) -> WorkerHost:
        if not issubclass(parent.pool_cls, POOLS):
            raise ImproperlyConfigured("the worker's tasks run in its own process: use --pool=threads, the default")
        parent.options.update(without_mingle=True, without_gossip=True)  # workers need not know one another
        settings = load_settings()
        parent.app.amqp.queues.select(queues_of(settings.worker_roles))
        parent.app.host = host = WorkerHost(settings, TaskTriggers(parent.app))
        for line in unread_settings():
            log.warning("setting.ignored", text=line)
        return host


class WorkerHost:
    """Celery's main thread starts and stops it; any thread may use `call`."""

    def __init__(self, settings: Settings, triggers: TaskTriggers) -> None:
        self._settings = settings
        self._triggers = triggers
        self._worker: Worker | None = None
        self._loop = uvloop.new_event_loop()
        self._until: asyncio.Future[None] = self._loop.create_future()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._main, name="cns-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()
        atexit.register(self._end_with_threads)

    def leave(self) -> None:
        """Begin a warm shutdown: the worker ends the sends in flight and gives back the other jobs."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stop_working)

    def stop(self) -> None:
        """Wait for a warm shutdown, or for the signal for a cold one."""
        self.leave()
        while not self._ended.wait(POLL_INTERVAL_S) and not state.should_terminate:
            pass

    def terminate(self) -> None:
        """Cold shutdown, as if the process were killed: leased jobs return when their leases end."""

    def _end_with_threads(self) -> None:
        """Exit without the interpreter's own shutdown, which would crash event loops that still run in threads."""
        if not self._ended.is_set():
            logging.shutdown()
            os._exit(0 if state.should_terminate in (None, True) else state.should_terminate)

    def call(self, ask: Callable[[Worker], Coroutine[Any, Any, Answer]], timeout_s: float | None) -> Answer:
        """Run `ask` on the worker's event loop and wait for its answer. Without a timeout, `ask` must end by itself.
        Raises StoreUnavailable while there is no worker, and TimeoutError."""
        worker = self._worker
        if worker is None:
            raise StoreUnavailable("the worker has not reached the store yet, or is stopping")
        return asyncio.run_coroutine_threadsafe(ask(worker), self._loop).result(timeout_s)

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _main(self) -> None:
        structlog.contextvars.bind_contextvars(process="worker")
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except StartError as error:
            log.critical("worker.start_failed", error=str(error))
            state.should_stop = error.exit_code
        except Exception as error:  # Celery must end too: a process that delivers nothing must not look alive
            log.critical("worker.crashed", exc_info=error)
            state.should_stop = EX_FAILURE
        self._ended.set()
        self._outlast_celery()

    def _outlast_celery(self) -> None:
        """End the process when Celery still waits for a broker that does not answer. This is a daemon thread: if Celery
        ends in time, the thread ends with the process."""
        threading.Event().wait(CELERY_END_TIMEOUT_S)
        log.warning("celery.shutdown_timed_out")
        os._exit(state.should_stop or 0)

    async def _serve(self) -> None:
        async with open_site(self._settings) as site:
            while await wait_until_acting(site, self._until):
                await self._work(site)
                if site is not None and site.leaving:
                    await site.stand_by()

    async def _work(self, site: SiteMembership | None) -> None:
        """Run a worker until the store is lost, the process is to end, or another site is to be active."""
        try:
            async with open_backend(self._settings, site) as backend:
                worker = await Worker.build(self._settings, backend)
                if worker.maintenance is not None:
                    worker.maintenance.ask_first(self._triggers.send)
                self._worker = worker
                log.info("worker.started", roles=worker.names)
                with short_gc_pauses():
                    await worker.run(until=end_of_work(site, self._until))
        except (StoreUnavailable, OutcomeUnknown) as error:
            log.warning("store.connection_failed", error=str(error))
            await asyncio.wait({self._until}, timeout=STORE_RETRY_S)
        finally:
            self._worker = None

    def _stop_working(self) -> None:
        if not self._until.done():
            end_within(STOP_S_MAX)
            self._until.set_result(None)
