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
    """`host` is None except in a worker process."""

    host: WorkerHost | None = None


app = Application("workers", include=[celery_control.__name__, celery_tasks.__name__])
app.steps["worker"].add(HostStep)


@app.on_configure.connect
def configure(sender: Application, **_: object) -> None:
    """Read the settings when Celery first needs one, and not at import."""
    try:
        sender.config_from_object(configuration(load_settings()))
    except StartError as error:
        print(f"cns: {error}", file=sys.stderr)  # noqa: T201  # for the person who started it
        sys.exit(error.exit_code)


@signals.setup_logging.connect
def set_up_logging(**_: object) -> None:
    """A receiver of this signal keeps Celery from setting up loggers itself."""
    set_up_celery_logs(load_settings().log_level)


@signals.worker_shutting_down.connect
def leave(how: str, **_: object) -> None:
    """Begin to stop at once: Celery acts on a signal only after its broker answered."""
    if how == "Warm" and app.host is not None:
        app.host.leave()


def configuration(settings: Settings) -> dict[str, Any]:
    """Celery's settings."""
    return {
        "broker_url": settings.broker or settings.redis or LOCAL_BROKER,
        # clusters that share a Redis need queues and remote control of their own
        "broker_transport_options": {"global_keyprefix": f"cns:{settings.cassandra_keyspace}:celery:"},
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,  # deliveries do not need the broker
        "task_default_queue": QUEUE,
        "task_ignore_result": True,
        "worker_pool": "threads",  # tasks call the worker, so they must run in its process
        "worker_concurrency": 1,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        "beat_schedule": {
            celery_tasks.MAINTENANCE: {
                "task": celery_tasks.MAINTENANCE,
                "schedule": settings.maintenance_s,
                "options": {"expires": settings.maintenance_s},  # the workers' own loops run it anyway
            }
        },
    }
