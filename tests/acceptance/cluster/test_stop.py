"""Processes that are told to stop while Cassandra takes statements and answers none: each ends by itself, step by step,
before the last resort ends it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cns_pytest.http import is_up
from lab.harness.cluster import fresh_store
from lab.harness.ports import free_port
from lab.harness.processes import ANNOUNCEMENT, BIN, HOST, Process, plain_environment
from lab.harness.tcp_proxy import TcpProxy
from lab.harness.waiting import wait_until

SILENT = "cassandra.responses_stopped"
"""The event of a process that has noticed that Cassandra answers nothing."""
FOREVER_S = 60


@contextmanager
def _processes(directory: Path) -> Iterator[tuple[TcpProxy, TcpProxy, Process, Process]]:
    """An API process and a worker, with Cassandra and Redis behind proxies."""
    with fresh_store() as store:
        host, _, port = store["CNS_CASSANDRA"].rpartition(":")
        redis_port = urlsplit(store["CNS_REDIS"]).port
        assert redis_port is not None
        with TcpProxy(int(port)) as cassandra, TcpProxy(redis_port) as redis:
            addresses = {"CNS_CASSANDRA": f"{host}:{cassandra.port}", "CNS_REDIS": redis.redis_url}
            shared = {**store, **addresses, "CNS_AUTH": "off"}
            api_port = free_port()
            environment = {**shared, "CNS_HOST": HOST, "CNS_PORT": str(api_port), "CNS_DATA": str(directory / "api")}
            api = Process([BIN / "cns", "api"], directory / "api.log", plain_environment(**environment), port=api_port)
            environment = {**shared, "CNS_DATA": str(directory / "worker")}
            worker = Process([BIN / "cns", "worker"], directory / "worker.log", plain_environment(**environment))
            try:
                api.start()
                worker.start()
                api.wait_printed(ANNOUNCEMENT)
                wait_until(lambda: is_up(f"{api.url}/ready"), lambda: api.output() + worker.output())
                yield cassandra, redis, api, worker
            finally:
                for process in (api, worker):
                    if process.is_running():
                        process.kill()


def _client(api: Process, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=api.url,
        region_name="us-east-1",
        aws_access_key_id="000000000000",
        aws_secret_access_key="any",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=FOREVER_S),
    )


class _Callers:
    """Calls that are in progress for as long as their process answers."""

    def __init__(self, api: Process) -> None:
        self._api = api
        self._end = Event()
        sqs, sns = _client(api, "sqs"), _client(api, "sns")
        standard = sqs.create_queue(QueueName="q")["QueueUrl"]
        fifo = sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        topic = sns.create_topic(Name="t")["TopicArn"]
        group = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
        self._calls: list[Callable[[], object]] = [
            lambda: sqs.send_message(QueueUrl=standard, MessageBody="m"),
            lambda: sqs.receive_message(QueueUrl=standard, WaitTimeSeconds=20, VisibilityTimeout=30),
            lambda: sqs.send_message(QueueUrl=fifo, MessageBody="m", **group),
            lambda: sqs.receive_message(QueueUrl=fifo, WaitTimeSeconds=20, VisibilityTimeout=30),
            lambda: sns.publish(TopicArn=topic, Message="m"),
        ]
        for call in self._calls:
            call()
        self._threads = [Thread(target=self._repeat, args=(call,)) for call in self._calls]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, call: Callable[[], object]) -> None:
        while not self._end.is_set() and self._api.is_running():
            with suppress(ClientError, BotoCoreError):
                call()


@pytest.mark.extended
@pytest.mark.parametrize(("noticed", "redis_hangs"), [(True, False), (False, False), (False, True)])
def test_processes_end_while_cassandra_hangs(tmp_path: Path, *, noticed: bool, redis_hangs: bool) -> None:
    with _processes(tmp_path) as (cassandra, redis, api, worker), _Callers(api):
        cassandra.hold()
        if redis_hangs:
            redis.hold()
        if noticed:
            wait_until(lambda: SILENT in api.output() and SILENT in worker.output(), api.output)
        for process in (api, worker):
            process.send_signal(signal.SIGTERM)
        for process in (api, worker):
            assert process.wait() == 0, process.output()
            assert "process.stop_timed_out" not in process.output()
            assert "Traceback" not in process.output()
