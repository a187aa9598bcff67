"""The Celery application: `celery -A cns_workers worker` hosts the worker of `cns up`; `beat` triggers maintenance and,
if wanted, the pipeline.

Celery provides the process, remote control and triggers. Notifications do not pass through its broker, so deliveries
continue without it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click
from celery import Celery, signals

from cns_common.configuration.settings import Settings, load_settings
from cns_common.errors import StartError
from cns_common.redis.sentinel import celery_urls, is_sentinel, read_sentinel_url
from cns_common.redis.urls import first_url
from cns_workers.celery import control as celery_control
from cns_workers.celery import pipeline as celery_pipeline
from cns_workers.celery import tasks as celery_tasks
from cns_workers.celery.bootstep import HostStep, WorkerHost
from cns_workers.celery.logs import set_up_celery_logs
from cns_workers.celery.pipeline import PipelineProcess
from cns_workers.celery.queues import TASKS

CONFIRMATIONS_S = 3_600.0
"""The interval at which beat has unconfirmed subscriptions removed, which expire after 48 hours."""
TASKS_AT_ONCE = 16
"""The most move tasks and replays that a worker runs at once for Celery; its own loops run more."""
LOCAL_BROKER = "redis://127.0.0.1:6379/0"


class CeleryApplication(Celery):
    """`host` is None except in a worker process."""

    host: WorkerHost | None = None
    pipeline = PipelineProcess()


app = CeleryApplication(
    "cns_workers", include=[celery_control.__name__, celery_tasks.__name__, celery_pipeline.__name__]
)
app.steps["worker"].add(HostStep)


def _keep_roles(_context: click.Context, _option: click.Parameter, roles: str | None) -> None:
    """Pass the option on as the setting CNS_WORKER_ROLES, which is checked with all settings."""
    if roles is not None:
        os.environ["CNS_WORKER_ROLES"] = roles  # noqa: TID251  # read as a setting


app.user_options["worker"].add(
    click.Option(
        ["--role"],
        callback=_keep_roles,
        expose_value=False,
        help="Roles of this worker: some of producer,consumer,maintenance. Default: CNS_WORKER_ROLES, else all.",
    )
)


@app.on_configure.connect
def configure(sender: CeleryApplication, **_: object) -> None:
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
    app.pipeline.stop()
    if how == "Warm" and app.host is not None:
        app.host.leave()


def _broker(settings: Settings) -> dict[str, Any]:
    """The broker's options. The prefix separates the queues and remote control of clusters that share a Redis."""
    options = {"global_keyprefix": f"cns:{settings.cassandra_keyspace}:celery:"}
    url = settings.broker or first_url(settings.redis) or LOCAL_BROKER
    if is_sentinel(url):
        options["master_name"] = read_sentinel_url(url).name
        url = celery_urls(url)
    return {"broker_url": url, "broker_transport_options": options}


def configuration(settings: Settings) -> dict[str, Any]:
    """Celery's settings."""
    return {
        **_broker(settings),
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,  # deliveries do not need the broker
        "task_default_queue": TASKS,
        "task_ignore_result": True,
        "worker_pool": "threads",  # tasks call the worker, so they must run in its process
        "worker_concurrency": TASKS_AT_ONCE,
        "worker_prefetch_multiplier": 1,
        "worker_send_task_events": True,  # for Flower
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        "beat_schedule": {
            task: {"task": task, "schedule": every_s, "options": {"expires": every_s}}  # the next trigger comes anyway
            for task, every_s in (
                (celery_tasks.MAINTENANCE, settings.maintenance_s),
                (celery_tasks.MOVES, settings.maintenance_s),
                (celery_tasks.REPLAYS, settings.maintenance_s),
                (celery_tasks.CONFIRMATIONS, CONFIRMATIONS_S),
                (celery_pipeline.PIPELINE, settings.pipeline_s),
            )
            if every_s
        },
    }
