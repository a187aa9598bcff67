"""Remote control of the delivery pools: `celery -A cns_workers inspect pools`, `… control resize_pool delivery 4`."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any

from celery.worker.control import control_command, inspect_command

from cns_common.configuration.settings import POOL_THREADS_MAX
from cns_common.errors import CnsError
from cns_workers.celery.bootstep import WorkerHost
from cns_workers.worker import Worker

ANSWER_TIMEOUT_S = 0.5
"""Celery's command waits one second for the answers of all workers."""
DIGITS_MAX = 3
SET_BY = "celery control"
NO_POOLS = "this worker has no pools: it lacks the role consumer"

Reply = dict[str, Any]


@inspect_command()
def pools(state: Any) -> Reply:
    """The worker's roles; threads, sends in flight and sends waiting of each delivery pool."""
    return _answer(state.app.host, _look)


@control_command(args=[("pool", str), ("threads", str)], signature="<delivery|redelivery> <threads>")
def resize_pool(state: Any, pool: str = "", threads: str = "") -> Reply:
    """Set the number of threads of a delivery pool until the worker ends."""
    n = _number(str(threads))
    if not 1 <= n <= POOL_THREADS_MAX:
        return {"error": f"threads must be a number from 1 to {POOL_THREADS_MAX}"}

    async def resize(worker: Worker) -> Reply:
        if worker.consumer is None:
            return {"error": NO_POOLS}
        if str(pool) not in worker.consumer.pools:
            return {"error": f"pool must be one of {', '.join(worker.consumer.pools)}"}
        worker.consumer.resizer.resize(str(pool), n, SET_BY)
        return {"ok": f"{pool} has {n} threads"}

    return _answer(state.app.host, resize)


async def _look(worker: Worker) -> Reply:
    shown = {
        name: {"threads": pool.size, "in_flight": pool.in_flight, "waiting": pool.waiting}
        for name, pool in (worker.consumer.pools if worker.consumer is not None else {}).items()
    }
    return {"process": os.getpid(), "roles": list(worker.names), "pools": shown}


def _answer(host: WorkerHost, ask: Callable[[Worker], Coroutine[Any, Any, Reply]]) -> Reply:
    try:
        return host.call(ask, ANSWER_TIMEOUT_S)
    except CnsError as error:
        return {"error": str(error)}
    except TimeoutError:
        return {"error": "the worker does not answer"}


def _number(text: str) -> int:
    """0 for a text that is no number, or has too many digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX else 0
