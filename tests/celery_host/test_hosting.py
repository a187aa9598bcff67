"""The worker of `cns up`, hosted by stock Celery: it delivers, alone and beside others, with and without a broker."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cns_common.errors import EXIT_SETTINGS_WRONG
from lab.harness.endpoints import Endpoint
from lab.harness.own_redis import OwnRedis
from lab.harness.running import Up, running
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic
from tests.celery_host.celery_running import Celery
from tests.celery_host.load import all_arrived, publish_many

MESSAGES = 200
RETRY_AT_ONCE = json.dumps(
    {"healthyRetryPolicy": {"numRetries": 1, "numNoDelayRetries": 1, "minDelayTarget": 1, "maxDelayTarget": 1}}
)
WITHOUT_CELERY = """
import sys
import cns_cli.accounts.account, cns_cli.main, cns_cli.service.processes, cns_cli.service.supervise
import cns_server.api, cns_workers.worker
sys.exit("celery" in sys.modules)
"""


def test_nothing_else_loads_celery() -> None:
    assert subprocess.run([sys.executable, "-c", WITHOUT_CELERY], check=False).returncode == 0


@pytest.mark.parametrize(
    ("options", "variables", "exit_code", "words"),
    [
        (("--pool=processes",), {}, 1, "use --pool=threads"),
        ((), {"CNS_DELIVERY_THREADS": "0"}, EXIT_SETTINGS_WRONG, "cns: CNS_DELIVERY_THREADS=0"),
    ],
)
def test_a_worker_that_cannot_start_says_why(
    celery: Celery, options: tuple[str, ...], variables: dict[str, str], exit_code: int, words: str
) -> None:
    done = replace(celery, environment={**celery.environment, **variables}).run("worker", *options)
    assert (done.returncode, words in done.stderr) == (exit_code, True), done.stderr


def test_the_setting_is_as_good_as_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CNS_WORKER", "off")
    with running(tmp_path / "data", page="/live") as service:
        assert set(service.pids()) == {"api"}


@pytest.mark.slice
def test_a_celery_worker_delivers_and_health_is_honest(
    service: Up, celery: Celery, topic: Topic, endpoint: Endpoint
) -> None:
    assert set(service.pids()) == {"api"}
    wait_until(lambda: not service.is_ready())
    assert service.health()["reasons"] == ["no worker reports: nothing is delivered"]
    worker = celery.worker("one")
    wait_until(service.is_ready)
    assert service.health()["status"] == "green"
    topic.subscribe("http", endpoint.url, DeliveryPolicy=RETRY_AT_ONCE)
    endpoint.behave(status=500, times=1)
    topic.publish("again")
    endpoint.wait(received=2, accepted=1, retries=1, good=2)
    assert worker.stop() == 0
    wait_until(lambda: not service.is_ready())
    assert service.health()["status"] == "red"


def test_two_workers_share_the_load(service: Up, celery: Celery, topic: Topic, endpoint: Endpoint) -> None:
    workers = celery.workers("one", "two")
    topic.subscribe("http", endpoint.url)

    def delivered() -> list[float]:
        labels = [f"worker-{worker.pid}" for worker in workers]
        return [service.metric("cns_deliveries_total", process=label) for label in labels]

    published = topic.publish_until(lambda: all(delivered()), lambda: str(delivered()))
    assert endpoint.wait(distinct_messages=published)["duplicates"] == 0


def test_a_lost_broker_takes_away_nothing_but_remote_control(
    broker: OwnRedis, celery: Celery, topic: Topic, endpoint: Endpoint
) -> None:
    one = celery.worker("one")
    topic.subscribe("http", endpoint.url)
    broker.kill()
    try:
        first = publish_many(topic, MESSAGES)
        all_arrived(endpoint, first)
        two = celery.worker("two")
        assert one.stop() == 0
        second = publish_many(topic, MESSAGES)
        assert all_arrived(endpoint, first + second)["duplicates"] == 0
    finally:
        broker.start()
    two.wait_connected()
    assert set(celery.ask("inspect", "pools")) == {two.node}
