"""A stock Celery application whose broker is this service; `test_celery.py` runs its worker."""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery, Task

DONE = Path(os.environ["CELERY_TEST_DONE"])

app = Celery(
    "acceptance",
    broker=os.environ["CELERY_TEST_BROKER"],
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "region": os.environ["CELERY_TEST_REGION"],
        "is_secure": False,
        "polling_interval": 0,
        "wait_time_seconds": 2,
        "visibility_timeout": 60,
        "queue_name_prefix": os.environ["CELERY_TEST_PREFIX"],
    },
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    task_acks_late=True,
    task_publish_retry=False,
)


@app.task  # type: ignore[untyped-decorator]  # Celery ships no types
def note(text: str) -> None:
    """Append a line that the test reads."""
    with DONE.open("a") as out:
        out.write(text + "\n")


@app.task(bind=True, max_retries=2)  # type: ignore[untyped-decorator]  # Celery ships no types
def third_time(task: Task, text: str) -> None:
    note(f"{text} {task.request.retries}")
    if task.request.retries < 2:
        raise task.retry(countdown=0.2)
