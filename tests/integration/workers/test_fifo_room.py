"""Queues of other services that hang: deliveries of FIFO topics to other queues go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.delivery import jobs
from cns.delivery.retry_policy import QUEUE_POLICY
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Failed, Outcome
from cns.notification import Notification
from cns_workers.consumers.fifo_consumer import BATCHES_AT_ONCE_MAX, FifoConsumer
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.delivery.traffic.circuit_breaker import PROBE_PAUSE_MAX_S
from cns_workers.delivery.traffic.endpoint_state import EndpointLimits
from cns_workers.jobs.quarantine import LEASES_MAX
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.embedded_context import channels_to, embedded_context
from tests.integration.workers.test_fifo_delivery import TOPIC, Host, ScriptedEndpoints


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with embedded_context(tmp_path, [TOPIC]) as kept:
        yield Host(kept.clock, kept.port, ScriptedEndpoints(), kept.stats, kept.context, kept.subscriptions)


async def test_many_groups_of_a_queue_that_hangs_leave_the_others_their_turn(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, well = await host.subscribed("a"), await host.subscribed("b")
    deliver = host.endpoints.deliver

    def hanging(target: Target, notification: Notification) -> asyncio.Future[Outcome]:
        if target.endpoint.endswith("a"):
            return asyncio.get_running_loop().create_future()
        return deliver(target, notification)

    monkeypatch.setattr(host.endpoints, "deliver", hanging)
    monkeypatch.setattr(host.endpoints, "traffic_key", lambda target: target.endpoint if target.arn == hangs else "")
    for number in range(BATCHES_AT_ONCE_MAX + 50):
        await host.put(hangs, f"h{number}", group=str(number))
    await host.put(well, "1")
    consumer = host.consumer()

    async def work() -> None:
        while not host.endpoints.texts("b"):
            await consumer.step()
            await asyncio.sleep(0)

    try:
        await asyncio.wait_for(work(), PATIENCE_S)
        assert host.endpoints.texts("b") == ["1"]
    finally:
        await consumer.drain(0.0)


async def test_a_group_waits_in_order_while_the_queues_circuit_breaker_is_open(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    arn = await host.subscribed("a")
    monkeypatch.setattr(host.endpoints, "traffic_key", lambda target: "key")
    admission = await _with_open_breaker(host)
    await host.put(arn, "1", "2")
    host.endpoints.answers["a"] = [Failed(Cause.STATUS, "HTTP 503", 5)] * LEASES_MAX
    host.port.stop_waiting()
    looks = 0
    while await host.left():
        await _work(host, admission)
        looks += 1
        host.clock.advance(int(PROBE_PAUSE_MAX_S * 700))
    assert looks > LEASES_MAX + 2, "between probes it only waits"
    assert [text for _, text in host.endpoints.asked] == ["1"] * (LEASES_MAX + 1) + ["2"]
    assert (host.endpoints.texts("a"), await host.port.depth(jobs.QUARANTINE)) == (["1", "2"], 0)


async def test_a_group_does_not_wait_beyond_the_time_of_its_messages(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    arn = await host.subscribed("a")
    monkeypatch.setattr(host.endpoints, "traffic_key", lambda target: "key")
    admission = await _with_open_breaker(host)
    host.port.stop_waiting()
    await host.put(arn, "1")
    await _work(host, admission)
    assert await host.left() == 1
    host.clock.advance(int(QUEUE_POLICY.total_s * 1000) + 1)
    _send(admission, "probe")
    await _work(host, admission)
    assert (await host.left(), host.endpoints.asked) == (0, [])


def _send(admission: AdmissionController, message: str) -> asyncio.Future[Outcome]:
    attempt: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    admission.start("key", message, lambda: attempt)
    return attempt


async def _with_open_breaker(host: Host) -> AdmissionController:
    limits = EndpointLimits()
    admission = AdmissionController(limits, host.clock)
    for number in range(limits.failures):
        _send(admission, str(number)).set_result(Failed(Cause.CONNECTION, "refused", 5))
        await asyncio.sleep(0)
    assert admission.open_breakers()
    return admission


async def _work(host: Host, admission: AdmissionController) -> None:
    consumer = FifoConsumer(host.context, channels_to(host.endpoints), admission)
    await asyncio.wait_for(consumer.step(), PATIENCE_S)
    await consumer.drain(PATIENCE_S)
