"""Failures of the egress proxy: they neither open breakers nor use up retries, and messages wait for the proxy."""

from __future__ import annotations

from functools import partial

from cns.delivery import jobs
from cns.delivery.retry_policy import TOTAL_S_MAX
from cns.endpoints.outcome import Cause, Failed
from cns_common.events.schema import DeliveryAttempted, DeliveryDeadLettered
from cns_workers.consumers.job_attempts import HELD_MS_MAX
from cns_workers.consumers.outcome_handler import EGRESS_DELAY_MS_MAX
from tests.integration.workers.lane_host import REFUSED, TOOK, LaneHost, until

AWAY = Failed(Cause.EGRESS_PROXY, "no connection to the egress proxy", 5)
NO_ROUTE = Failed(Cause.EGRESS_ROUTE, "the egress proxy answered 502", 5)
TURN_MS = EGRESS_DELAY_MS_MAX * 2


async def test_a_message_waits_for_the_proxy_beyond_its_retries(host: LaneHost) -> None:
    arn = await host.subscribed("a", dead_letters=True)
    host.endpoints.answers["a"] = [*[AWAY] * 30, REFUSED, TOOK]
    host.work()
    await host.publish("1", arn)
    for asked in range(1, 33):
        await until(partial(_is_asked, host, "a", asked))
        await host.until_depth(jobs.ENDPOINT_JOBS, 0)
        if asked < 32:
            await host.until_delayed(jobs.REDELIVERY, 1)
            host.clock.advance(TURN_MS)
    await host.until_depth(jobs.REDELIVERY, 0)
    assert host.endpoints.buried == 0
    attempts = host.told(DeliveryAttempted)
    assert [event.attempt for event in attempts] == [1] * 31 + [2], "failures of the proxy are not counted"


async def test_it_does_not_wait_for_ever(host: LaneHost) -> None:
    for outcome, wait_ms in ((NO_ROUTE, TOTAL_S_MAX * 1000), (AWAY, HELD_MS_MAX)):
        arn = await host.subscribed(outcome.cause, dead_letters=True)
        host.endpoints.answers[outcome.cause] = [outcome] * 3
        if not host.consumers:
            host.work()
        buried = host.endpoints.buried
        await host.publish(outcome.cause, arn)
        await host.until_delayed(jobs.REDELIVERY, 1)
        host.clock.advance(wait_ms - 60_000)
        await until(partial(_is_asked, host, outcome.cause, 2))
        await host.until_delayed(jobs.REDELIVERY, 1)
        assert host.endpoints.buried == buried
        host.clock.advance(EGRESS_DELAY_MS_MAX * 2)
        await until(partial(_is_asked, host, outcome.cause, 3))
        await host.until_depth(jobs.REDELIVERY, 0)
        assert host.endpoints.buried == buried + 1
    assert [event.cause for event in host.told(DeliveryDeadLettered)] == ["spent:egress_route", "spent:egress_proxy"]


async def test_the_breaker_neither_opens_nor_closes(host: LaneHost) -> None:
    for _ in range(50):
        host.send("a").set_result(AWAY)
        await until(lambda: host.admission.wait_s("a") == 0)
    assert not host.admission.is_open("a")
    await host.fail("b")
    assert host.admission.is_open("b")
    host.clock.advance(5_000)
    host.send("b").set_result(NO_ROUTE)
    await until(lambda: host.admission.wait_s("b") > 0)  # until the next probe
    assert host.admission.is_open("b")


def _is_asked(host: LaneHost, endpoint: str, times: int) -> bool:
    return host.endpoints.names().count(endpoint) >= times
