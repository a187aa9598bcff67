"""`cns pool …` on a running service: what it shows, what it changes, and that no delivery is lost for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic

SUBSCRIPTIONS = 100
PUBLISHES = 50
SIZES = (8, 1, 5)
NO_POOL = "cns: there is no pool deliver: delivery or redelivery"
NO_WORKER = "cns: no worker nobody reports; workers: "
REFUSED = [
    ("resize delivery 0", "cns: a pool has 1 to 64 threads in each worker, not 0"),
    ("resize delivery 65", "cns: a pool has 1 to 64 threads in each worker, not 65"),
    ("resize delivery many", "'many'|valid integer"),
    ("resize delivery", "Missing argument"),
    ("resize deliver 4", NO_POOL),
    ("reset deliver", NO_POOL),
    ("resize delivery 4 --worker nobody", NO_WORKER),
    ("reset delivery --worker nobody", NO_WORKER),
]


def shown(service: Service) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(service.cns("pool", "list", "--json").stdout)
    return described


def threads(service: Service, pool: str = "delivery") -> dict[str, int]:
    """The pools of each worker that reports."""
    return {worker: report["pools"][pool]["threads"] for worker, report in shown(service)["workers"].items()}


@pytest.fixture
def as_set(service: Service) -> Iterator[None]:
    yield
    for pool in ("delivery", "redelivery"):
        service.cns("pool", "reset", pool)


@pytest.mark.usefixtures("as_set")
def test_pools_are_shown_resized_and_reset(service: Service) -> None:
    # sends of other tests may hang
    wait_until(lambda: service.metric("cns_pool_sends_in_flight", pool="delivery") == 0)
    before = threads(service)
    assert before
    service.cns("pool", "resize", "delivery", "7")
    assert threads(service) == dict.fromkeys(before, 7)
    assert set(threads(service, "redelivery").values()) == {1}
    wait_until(lambda: service.metric("cns_pool_threads", pool="delivery") == 7 * len(before))
    (size,) = shown(service)["sizes"]
    assert (size["pool"], size["worker"], size["threads"]) == ("delivery", None, 7)
    pools = next(iter(shown(service)["workers"].values()))["pools"]["delivery"]
    assert (pools["wanted"], pools["set_by"], pools["in_flight"]) == (7, size["set_by"], 0)
    table = service.cns("pool", "list").stdout
    for worker in before:
        assert re.search(
            rf"^{re.escape(worker)} +delivery +7 +7 +0 +0 +0 +0 +{re.escape(size['set_by'])}, 20", table, re.M
        )
    service.cns("pool", "reset", "delivery")
    assert threads(service) == before
    assert shown(service)["sizes"] == []


@pytest.mark.usefixtures("as_set")
def test_one_worker_alone(service: Service) -> None:
    before = threads(service, "redelivery")
    one = next(iter(before))
    said = service.cns("pool", "resize", "redelivery", "3", "--worker", one).stdout
    assert said == f"{one}: redelivery has 3 threads\n"
    assert threads(service, "redelivery") == {**before, one: 3}
    service.cns("pool", "resize", "redelivery", "2")  # for all processes: the last command counts
    assert threads(service, "redelivery") == dict.fromkeys(before, 2)
    service.cns("pool", "resize", "redelivery", "4", "--worker", one)
    service.cns("pool", "reset", "redelivery", "--worker", one)
    assert threads(service, "redelivery") == dict.fromkeys(before, 2)


@pytest.mark.parametrize(("words", "complaint"), REFUSED, ids=[words for words, _ in REFUSED])
def test_what_makes_no_sense_is_refused(service: Service, words: str, complaint: str) -> None:
    refused = service.cns("pool", *words.split(), check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert re.search(complaint, refused.stderr), refused.stderr


@pytest.mark.extended
@pytest.mark.usefixtures("as_set")
def test_resizing_under_5000_deliveries_loses_and_repeats_none(
    service: Service, topic: Topic, endpoint: Endpoint
) -> None:
    for n in range(SUBSCRIPTIONS):
        topic.request_subscription("http", f"{endpoint.url}?tag={n}&delay_ms=300")
    endpoint.wait(confirmed=SUBSCRIPTIONS)
    published = {topic.publish(str(n)) for n in range(PUBLISHES)}
    for size in SIZES:
        service.cns("pool", "resize", "delivery", str(size))
    wait_until(lambda: endpoint.look()["received"] >= SUBSCRIPTIONS * PUBLISHES, lambda: str(endpoint.look(n=1)))
    summary = endpoint.wait(received=SUBSCRIPTIONS * PUBLISHES, accepted=SUBSCRIPTIONS * PUBLISHES, duplicates=0)
    assert summary["distinct_messages"] == len(published)
    assert set(threads(service).values()) == {SIZES[-1]}
