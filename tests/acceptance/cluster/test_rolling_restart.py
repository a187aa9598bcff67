"""A rolling restart of a cluster behind its balancer: every API process and worker in turn, under load."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.harness.clustered import serving
from lab.harness.endpoints import Endpoint
from tests.acceptance.rolling import Load
from tests.acceptance.topics import Topic

STOP_DELAY_S = "3"
"""Seconds of delay as in the manifests of deploy; HAProxy asks each second."""
PUBLISHED = 20


@pytest.mark.extended
def test_no_call_fails_and_nothing_is_lost(tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CNS_STOP_DELAY_S", STOP_DELAY_S)
    with serving(tmp_path) as service:
        sns, sqs = service.client("sns"), service.client("sqs")
        topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
        topic.subscribe("http", endpoint.url)
        published: list[str] = []
        with Load(service, sqs.create_queue(QueueName="q")["QueueUrl"]) as load:
            load.goes_on()
            for index in (0, 1):
                published += [topic.publish(f"{index}-{n}") for n in range(PUBLISHED)]
                assert service.cluster.apis[index].stop() == 0
                service.cluster.start_again(service.cluster.apis[index])
                load.goes_on()
                published += [topic.publish(f"{index}+{n}") for n in range(PUBLISHED)]
                assert service.cluster.workers[index].stop() == 0
                service.cluster.start_again(service.cluster.workers[index])
                load.goes_on()
        summary = endpoint.wait(distinct_messages=len(published))
        assert summary["duplicates"] == 0
