"""The delivery pools by remote control, as an operator types it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from celery import Celery as celery_app

from cns_common.configuration.settings import POOL_THREADS_MAX, Settings
from cns_common.worker_roles import ALL_ROLES
from cns_workers.celery import configuration
from lab.harness.endpoints import Endpoint
from lab.harness.own_redis import OwnRedis
from lab.harness.running import Up
from lab.harness.waiting import PATIENCE_S, wait_until
from tests.acceptance.topics import Topic
from tests.celery_host.celery_running import Celery, CeleryProcess

IDLE = {
    "delivery": {"threads": 2, "in_flight": 0, "waiting": 0},
    "redelivery": {"threads": 1, "in_flight": 0, "waiting": 0},
}
NUMBER_WANTED = "threads must be a number from 1 to 64"
POOL_WANTED = "pool must be one of delivery, redelivery"
REFUSED: list[tuple[dict[str, object], str]] = [
    ({}, NUMBER_WANTED),
    ({"pool": "delivery"}, NUMBER_WANTED),
    ({"pool": "delivery", "threads": 0}, NUMBER_WANTED),
    ({"pool": "delivery", "threads": -1}, NUMBER_WANTED),
    ({"pool": "delivery", "threads": POOL_THREADS_MAX + 1}, NUMBER_WANTED),
    ({"pool": "delivery", "threads": 1.5}, NUMBER_WANTED),
    ({"pool": "delivery", "threads": "many"}, NUMBER_WANTED),
    ({"pool": "delivery", "threads": "٣"}, NUMBER_WANTED),
    ({"pool": "delivery", "threads": "9" * 5000}, NUMBER_WANTED),
    ({"pool": "delivery", "threads": None}, NUMBER_WANTED),
    ({"threads": 1}, POOL_WANTED),
    ({"pool": "prefork", "threads": 4}, POOL_WANTED),
    ({"pool": ["delivery"], "threads": 4}, POOL_WANTED),
]


@pytest.fixture
def pair(celery: Celery) -> tuple[CeleryProcess, CeleryProcess]:
    one, two = celery.workers("one", "two")
    one.wait_connected()
    two.wait_connected()
    return one, two


def test_pools_are_shown_and_resized_while_they_deliver(
    celery: Celery, pair: tuple[CeleryProcess, CeleryProcess], topic: Topic, endpoint: Endpoint
) -> None:
    one, two = pair
    assert celery.ask("inspect", "pools") == {
        worker.node: {"process": worker.pid, "roles": [*ALL_ROLES], "pools": IDLE} for worker in pair
    }
    assert celery.ask("control", "resize_pool", "--destination", one.node, "delivery", "5") == {
        one.node: {"ok": "delivery has 5 threads"}
    }
    topic.subscribe("http", endpoint.url)
    endpoint.behave(hang=True, times=1)
    topic.publish("hangs")
    endpoint.wait(received=1)
    delivery = {node: shown["pools"]["delivery"] for node, shown in celery.ask("inspect", "pools").items()}
    assert {node: shown["threads"] for node, shown in delivery.items()} == {one.node: 5, two.node: 2}
    assert sum(shown["in_flight"] for shown in delivery.values()) == 1
    assert set(celery.ask("control", "resize_pool", "delivery", "1")) == {one.node, two.node}
    topic.publish("does not")
    endpoint.wait(received=2, accepted=1)


def test_bad_arguments_are_answered(broker: OwnRedis, celery: Celery) -> None:
    worker = celery.worker("one")
    worker.wait_connected()
    with celery_app() as client:
        client.config_from_object(configuration(Settings(broker=broker.url)))

        def resize(arguments: dict[str, object]) -> object:
            (answer,) = client.control.broadcast(
                "resize_pool", arguments=arguments, reply=True, limit=1, timeout=PATIENCE_S
            )
            return answer[worker.node]

        for arguments, error in REFUSED:
            assert resize(arguments) == {"error": error}
        assert resize({"pool": "redelivery", "threads": POOL_THREADS_MAX}) == {"ok": "redelivery has 64 threads"}
    assert celery.run("control", "resize_pool", "delivery", "2", "3").returncode == 2


def test_what_is_wanted_of_all_workers_reaches_them_without_the_broker(
    service: Up, broker: OwnRedis, celery: Celery
) -> None:
    def shown() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(service.cns("pool", "list", "--json").stdout)["workers"]
        return found

    def delivery() -> tuple[int, str]:
        (report,) = shown().values()
        return report["pools"]["delivery"]["threads"], report["pools"]["delivery"]["set_by"].partition("@")[0]

    broker.kill()
    try:
        worker = celery.worker("one")
        name = f"worker-{worker.pid}"
        wait_until(lambda: list(shown()) == [name])
        assert service.cns("pool", "resize", "delivery", "4").stdout == f"{name}: delivery has 4 threads\n"
    finally:
        broker.start()
    worker.wait_connected()
    assert celery.ask("inspect", "pools")[worker.node]["pools"]["delivery"]["threads"] == 4
    celery.ask("control", "resize_pool", "delivery", "5")
    wait_until(lambda: delivery() == (5, "celery control"))
    service.cns("pool", "reset", "delivery")
    assert delivery() == (2, "setting")
