"""Celery: an application with this SQS as its broker, a worker, and tasks: at once, with a countdown, and repeated.

It needs `pip install 'celery[sqs]'`. The worker is stock Celery: `celery -A celery_tasks worker --pool solo`.
"""

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import boto3
from celery import Celery

PREFIX = os.environ.setdefault("TASKS_PREFIX", f"tasks-{uuid.uuid4().hex[:8]}-")
"""The worker inherits it, so that both sides name the same queues."""
ENDPOINT = urlsplit(os.environ["AWS_ENDPOINT_URL"])


def broker_url() -> str:
    """The secret may have `/` and `+`, which a URL cannot carry as they are."""
    key, secret = (quote(os.environ[name], safe="") for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    return f"sqs://{key}:{secret}@{ENDPOINT.netloc}//"


app = Celery("celery_tasks", broker=broker_url())
app.conf.update(
    broker_transport_options={
        "region": os.environ["AWS_REGION"],
        "is_secure": ENDPOINT.scheme == "https",
        "queue_name_prefix": PREFIX,
        "visibility_timeout": 60,  # seconds; longer than the longest task and the longest countdown
        "wait_time_seconds": 20,  # long polls: the worker hears of a task at once
        "polling_interval": 0,
    },
    broker_connection_retry_on_startup=True,
    task_acks_late=True,  # a task whose worker dies is done by another one
    worker_enable_remote_control=False,  # SQS has no broadcast: `inspect` and `control` need another broker
)


@app.task  # type: ignore[untyped-decorator]  # Celery ships no types
def add(x: int, y: int) -> None:
    tell(f"{x} + {y} = {x + y}")


@app.task(bind=True, max_retries=2)  # type: ignore[untyped-decorator]  # Celery ships no types
def fetch(task: Any) -> None:
    """A task that fails twice."""
    if task.request.retries < 2:
        raise task.retry(countdown=0)
    tell(f"fetched by attempt {task.request.retries + 1}")


def tell(text: str) -> None:
    """SQS keeps no results. A task that has one sends it to a queue, or to a result backend such as Redis."""
    sqs = boto3.client("sqs")
    sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName=f"{PREFIX}results")["QueueUrl"], MessageBody=text)


def main() -> None:
    sqs = boto3.client("sqs")
    results = sqs.create_queue(QueueName=f"{PREFIX}results")["QueueUrl"]
    worker = start_worker()
    try:
        add.delay(1, 2)
        add.apply_async((3, 4), countdown=1)
        fetch.delay()
        for text in receive(results, 3, worker):
            print(text)
    finally:
        worker.terminate()
        worker.wait()
        for url in sqs.list_queues(QueueNamePrefix=PREFIX).get("QueueUrls", []):
            sqs.delete_queue(QueueUrl=url)


def start_worker() -> subprocess.Popen[bytes]:
    words = ["-m", "celery", "-A", "celery_tasks", "--quiet", "worker", "--pool", "solo", "--loglevel", "ERROR"]
    return subprocess.Popen([sys.executable, *words], cwd=Path(__file__).parent, stdout=subprocess.DEVNULL)


def receive(queue: str, count: int, worker: subprocess.Popen[bytes]) -> list[str]:
    sqs = boto3.client("sqs")
    found: list[str] = []
    while len(found) < count:
        if worker.poll() is not None:
            sys.exit("the worker has ended")
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        for message in answer.get("Messages", []):
            found.append(message["Body"])
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return sorted(found)


if __name__ == "__main__":
    main()
