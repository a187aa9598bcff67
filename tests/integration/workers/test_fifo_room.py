"""Queues of other services that hang: deliveries of FIFO topics to other queues go on."""

from __future__ import annotations

import asyncio

import pytest

from cns.delivery import jobs
from cns.delivery.retry_policy import QUEUE_POLICY
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Failed, Outcome
from cns.notification import Notification
from cns_workers.consumers.fifo_consumer import BATCHES_AT_ONCE_MAX
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.delivery.traffic.circuit_breaker import PROBE_PAUSE_MAX_S
from cns_workers.delivery.traffic.endpoint_state import EndpointLimits
from cns_workers.jobs.quarantine import LEASES_MAX
from lab.harness.waiting import PATIENCE_S
from tests.integration.workers.fifo_host import FifoHost


async def test_many_groups_of_a_queue_that_hangs_leave_the_others_their_turn(
    fifo: FifoHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, well = await fifo.subscribed("a"), await fifo.subscribed("b")
    deliver = fifo.endpoints.deliver

    def hanging(target: Target, notification: Notification) -> asyncio.Future[Outcome]:
        if target.endpoint.endswith("a"):
            return asyncio.get_running_loop().create_future()
        return deliver(target, notification)

    monkeypatch.setattr(fifo.endpoints, "deliver", hanging)
    monkeypatch.setattr(fifo.endpoints, "traffic_key", lambda target: target.endpoint if target.arn == hangs else "")
    for number in range(BATCHES_AT_ONCE_MAX + 50):
        await fifo.put(hangs, f"h{number}", group=str(number))
    await fifo.put(well, "1")
    consumer = fifo.consumer()

    async def work() -> None:
        while not fifo.endpoints.texts("b"):
            await consumer.step()
            await asyncio.sleep(0)

    try:
        await asyncio.wait_for(work(), PATIENCE_S)
        assert fifo.endpoints.texts("b") == ["1"]
    finally:
        await consumer.drain(0.0)


async def test_a_group_waits_in_order_while_the_queues_circuit_breaker_is_open(
    fifo: FifoHost, arn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fifo.endpoints, "traffic_key", lambda target: "key")
    admission = await _with_open_breaker(fifo)
    await fifo.put(arn, "1", "2")
    fifo.endpoints.answers["a"] = [Failed(Cause.STATUS, "HTTP 503", 5)] * LEASES_MAX
    fifo.port.stop_waiting()
    looks = 0
    while await fifo.left():
        await _work(fifo, admission)
        looks += 1
        fifo.clock.advance(int(PROBE_PAUSE_MAX_S * 700))
    assert looks > LEASES_MAX + 2, "between probes it only waits"
    assert [text for _, text in fifo.endpoints.asked] == ["1"] * (LEASES_MAX + 1) + ["2"]
    assert (fifo.endpoints.texts("a"), await fifo.port.depth(jobs.QUARANTINE)) == (["1", "2"], 0)


async def test_a_group_does_not_wait_beyond_the_time_of_its_messages(
    fifo: FifoHost, arn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fifo.endpoints, "traffic_key", lambda target: "key")
    admission = await _with_open_breaker(fifo)
    fifo.port.stop_waiting()
    await fifo.put(arn, "1")
    await _work(fifo, admission)
    assert await fifo.left() == 1
    fifo.clock.advance(int(QUEUE_POLICY.total_s * 1000) + 1)
    _send(admission, "probe")
    await _work(fifo, admission)
    assert (await fifo.left(), fifo.endpoints.asked) == (0, [])


def _send(admission: AdmissionController, message: str) -> asyncio.Future[Outcome]:
    attempt: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    admission.start("key", message, lambda: attempt)
    return attempt


async def _with_open_breaker(fifo: FifoHost) -> AdmissionController:
    limits = EndpointLimits()
    admission = AdmissionController(limits, fifo.clock)
    for number in range(limits.failures):
        _send(admission, str(number)).set_result(Failed(Cause.CONNECTION, "refused", 5))
        await asyncio.sleep(0)
    assert admission.open_breakers()
    return admission


async def _work(fifo: FifoHost, admission: AdmissionController) -> None:
    consumer = fifo.consumer(admission)
    await asyncio.wait_for(consumer.step(), PATIENCE_S)
    await consumer.drain(PATIENCE_S)
