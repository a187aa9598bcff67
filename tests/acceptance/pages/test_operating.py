"""Work of an operator and an owner on the pages: probe an endpoint that is down, resize the workers' pools."""

from __future__ import annotations

import html
from collections.abc import Callable

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.service import REGION, Service
from lab.harness.waiting import wait_until
from tests.acceptance.pages.person import Person
from tests.acceptance.topics import Topic

FAILURES = 25  # more failures in a row than the circuit breaker allows


def test_an_endpoint_that_is_down_is_probed_when_asked(
    service: Service,
    person: Person,
    operator: Person,
    open_browser: Callable[[], Person],
    stranger: dict[str, str],
    topic: Topic,
    endpoint: Endpoint,
) -> None:
    topic.subscribe("http", endpoint.url)
    endpoint.behave(refuse=True)
    for n in range(FAILURES):
        topic.publish(str(n))

    def shown(someone: Person) -> str:
        return html.unescape(someone.http.get("/ui/endpoints").text)

    wait_until(lambda: endpoint.url in shown(person), lambda: shown(person))
    assert "the endpoint closed the connection" in shown(person)
    assert endpoint.url in shown(operator)
    other = open_browser()
    other.sign_in(key_id=stranger["key"], secret=stranger["secret"], region=REGION)
    assert endpoint.url not in shown(other)
    account = topic.arn.split(":")[4]
    assert other.post("/ui/endpoints/probe", account=account, endpoint=endpoint.url).status_code == 404

    endpoint.behave()
    probed = person.post("/ui/endpoints/probe", account=account, endpoint=endpoint.url)
    assert "The next send probes the endpoint." in probed.text or probed.status_code == 404  # it has probed already
    wait_until(lambda: endpoint.url not in shown(person), lambda: shown(person))


@pytest.mark.extended
def test_an_operator_resizes_pools(service: Service, operator: Person, person: Person) -> None:
    def threads() -> float:
        return service.metric("cns_pool_threads", pool="redelivery")

    before = threads()
    assert person.post("/ui/service/pools", pool="redelivery", threads="3").status_code == 403
    for fields in ({"threads": "0"}, {"threads": "65"}, {"threads": "3", "pool": "moon"}, {"threads": "x"}):
        assert operator.post("/ui/service/pools", **{"pool": "redelivery", **fields}).status_code == 400
    assert operator.post("/ui/service/pools", pool="redelivery", threads="3", worker="w").status_code == 404
    assert "The workers follow" in operator.post("/ui/service/pools", pool="redelivery", threads="3").text
    wait_until(lambda: threads() == 3, lambda: str(threads()))
    assert "operator (pages)" in operator.http.get("/ui/service").text
    operator.post("/ui/service/pools/reset", pool="redelivery")
    wait_until(lambda: threads() == before, lambda: str(threads()))
