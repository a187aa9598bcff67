"""The Celery application: `celery -A workers worker` hosts the worker of `cns up`, and `beat` triggers maintenance.

Celery brings the host, remote control and triggers. Notifications do not pass through its broker, so deliveries go on
without it.
"""

from __future__ import annotations

import sys
from typing import Any

from celery import Celery, signals

from cns_common.configuration.settings import Settings, load_settings
from cns_common.errors import StartError
from workers.celery import control as celery_control
from workers.celery import tasks as celery_tasks
from workers.celery.bootstep import HostStep, WorkerHost
from workers.celery.logs import set_up_celery_logs

QUEUE = "cns-tasks"
LOCAL_BROKER = "redis://127.0.0.1:6379/0"


class Application(Celery):
    """`host` is what a worker process runs; no other process has one."""

    host: WorkerHost | None = None


app = Application("workers", include=[celery_control.__name__, celery_tasks.__name__])
app.steps["worker"].add(HostStep)


@app.on_configure.connect
def configure(sender: Application, **_: object) -> None:
    """Celery asks for its settings when it first needs one, not when this is imported."""
    try:
        sender.config_from_object(configuration(load_settings()))
    except StartError as error:
        print(f"cns: {error}", file=sys.stderr)  # noqa: T201  # for the person who started it
        sys.exit(error.exit_code)


@signals.setup_logging.connect
def set_up_logging(**_: object) -> None:
    """Celery leaves the loggers alone when somebody answers this."""
    set_up_celery_logs(load_settings().log_level)


@signals.worker_shutting_down.connect
def leave(how: str, **_: object) -> None:
    """At once: Celery sees to a signal only when its broker lets it."""
    if how == "Warm" and app.host is not None:
        app.host.leave()


def configuration(settings: Settings) -> dict[str, Any]:
    """Celery's settings, from ours."""
    return {
        "broker_url": settings.broker or settings.redis or LOCAL_BROKER,
        # other clusters may use that Redis, too: their workers have their own queue and hear their own commands
        "broker_transport_options": {"global_keyprefix": f"cns:{settings.cassandra_keyspace}:celery:"},
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,  # the broker may stay away for as long as it likes
        "task_default_queue": QUEUE,
        "task_ignore_result": True,
        "worker_pool": "threads",  # tasks ask the worker, so they run in its process
        "worker_concurrency": 1,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        "beat_schedule": {
            celery_tasks.MAINTENANCE: {
                "task": celery_tasks.MAINTENANCE,
                "schedule": settings.maintenance_s,
                "options": {"expires": settings.maintenance_s},  # who comes late finds it done by the loops
            }
        },
    }
