"""Stock Celery with its SQS transport, this service as its broker: a real worker and real tasks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from lab.harness.processes import Process, plain_environment
from lab.harness.service import REGION, Service
from lab.harness.waiting import PATIENCE_S, wait_until

SEND = """
import json, sys
from tests.acceptance.sqs.celery_app import app
for name, arguments, countdown_s in json.loads(sys.argv[1]):
    app.send_task(f"tests.acceptance.sqs.celery_app.{name}", arguments, countdown=countdown_s)
"""
COUNTDOWN_S = 1


def test_tasks_countdowns_and_retries(service: Service, new_name: Callable[[], str], tmp_path: Path) -> None:
    done = tmp_path / "done"
    done.touch()
    key, secret = (quote(service.environment[name], safe="") for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    environment = {
        "CELERY_TEST_BROKER": f"sqs://{key}:{secret}@{service.url.removeprefix('http://')}//",
        "CELERY_TEST_DONE": str(done),
        "CELERY_TEST_REGION": REGION,
        "CELERY_TEST_PREFIX": f"{new_name()}-",
    }
    words = ["-A", "tests.acceptance.sqs.celery_app", "worker", "--pool=solo", "--loglevel=INFO"]
    variables = plain_environment(**environment)
    worker = Process([sys.executable, "-m", "celery", *words], tmp_path / "worker.log", variables)
    worker.start()
    try:
        tasks: list[tuple[str, list[str], float | None]] = [("note", [str(n)], None) for n in range(12)]
        tasks += [("note", ["late"], COUNTDOWN_S), ("third_time", ["try"], None)]
        subprocess.run([sys.executable, "-c", SEND, json.dumps(tasks)], env=variables, check=True, timeout=PATIENCE_S)
        expected = sorted([*map(str, range(12)), "late", "try 0", "try 1", "try 2"])
        wait_until(lambda: sorted(done.read_text().split("\n"))[1:] == expected, worker.output)
    finally:
        worker.stop()
    assert "Traceback" not in worker.output(), worker.output()
    queue = service.client("sqs").get_queue_url(QueueName=f"{environment['CELERY_TEST_PREFIX']}celery")["QueueUrl"]
    counts = service.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert (counts["ApproximateNumberOfMessages"], counts["ApproximateNumberOfMessagesNotVisible"]) == ("0", "0")
