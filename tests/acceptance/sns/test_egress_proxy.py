"""A service behind an egress proxy: confirmations, deliveries, and a proxy that is away."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.running import Up, running
from lab.harness.tinyproxy import CREDENTIALS, Tinyproxy
from lab.harness.waiting import wait_until

PASSWORD = CREDENTIALS.partition(":")[2]


@pytest.mark.extended
def test_messages_wait_for_the_proxy(tmp_path: Path, receiver: str) -> None:
    proxy = Tinyproxy(tmp_path)
    proxy.start()
    try:
        with running(
            tmp_path / "data",
            "--test-clock",
            environment={"CNS_EGRESS_PROXY": proxy.proxy_url(), "CNS_LOG_LEVEL": "info"},
        ) as service:
            sns, endpoint = service.client("sns"), Endpoint(receiver)
            topic = sns.create_topic(Name="t")["TopicArn"]
            sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=endpoint.url)
            endpoint.wait(confirmed=1)
            sns.publish(TopicArn=topic, Message="first")
            wait_until(lambda: len(endpoint.notifications()) == 1)
            authority = receiver.removeprefix("http://")
            assert f"CONNECT {authority} " in proxy.output()
            proxy.stop()
            message_id = sns.publish(TopicArn=topic, Message="second")["MessageId"]
            for failures in range(1, 9):  # more than the policy of the subscription has
                wait_until(partial(_has_failed, service, failures))
                service.advance(600)
            explained = service.cns("explain", message_id, check=False).stdout
            assert "the egress proxy is away" in explained, explained
            assert all(one["cause"] == "egress_proxy" for one in service.events("delivery_attempt.failed"))
            assert service.metric("cns_circuit_breakers_open") == 0
            proxy.start()
            for _ in range(3):
                service.advance(600)
            wait_until(lambda: len(endpoint.notifications()) == 2)
            written = service.said() + explained
            files = [path.read_bytes() for path in (tmp_path / "data" / "events").rglob("*") if path.is_file()]
            assert PASSWORD not in written and not any(PASSWORD.encode() in each for each in files)
    finally:
        proxy.stop()


def _has_failed(service: Up, times: int) -> bool:
    return len(service.events("delivery_attempt.failed")) >= times
