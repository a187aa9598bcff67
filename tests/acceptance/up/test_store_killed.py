"""The store's process is killed beside two API processes, amid calls of every kind: no SDK reports one as failed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError

from lab.harness.running import Up, running
from lab.harness.waiting import PATIENCE_S, wait_until
from tests.acceptance.up.test_rolling_restart import pid_of
from tests.integration.errors.api_calls import APPLICATION, DEAD_ARN, QUEUE_ARN, TOPIC, Members, sns_calls, sqs_calls
from tests.integration.errors.api_forms import ACCOUNT

CALLERS = 6
KILLS = 3
SDK_TRIES = 3
"""The default of the SDKs since 2026-11-10."""


class Callers:
    """Each makes all calls in turn, from another one on."""

    def __init__(self, service: Up) -> None:
        self._service = service
        self._calls = self._prepared()
        self._end = Event()
        self.made = [0] * CALLERS
        self.failures: list[str] = []

    def _client(self, name: str) -> Any:
        return self._service.client(
            name, region_name="us-east-1", key=ACCOUNT, tries=SDK_TRIES, read_timeout=PATIENCE_S
        )

    def _prepared(self) -> list[tuple[str, str, Members]]:
        """The service, name and members of each call, whose things are there."""
        sqs, sns = self._client("sqs"), self._client("sns")
        sqs.create_queue(QueueName="dead")
        redrive = f'{{"deadLetterTargetArn":"{DEAD_ARN}","maxReceiveCount":"3"}}'
        url = sqs.create_queue(QueueName="q", Attributes={"RedrivePolicy": redrive})["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="m")
        handle = sqs.receive_message(QueueUrl=url)["Messages"][0]["ReceiptHandle"]
        sns.create_topic(Name="t")
        subscribed = sns.subscribe(TopicArn=TOPIC, Protocol="sqs", Endpoint=QUEUE_ARN, ReturnSubscriptionArn=True)[
            "SubscriptionArn"
        ]
        sns.create_platform_application(Name="a", Platform="GCM", Attributes={"PlatformCredential": "c"})
        endpoint = sns.create_platform_endpoint(PlatformApplicationArn=APPLICATION, Token="t")["EndpointArn"]
        task = sqs.start_message_move_task(SourceArn=DEAD_ARN, DestinationArn=QUEUE_ARN)["TaskHandle"]
        polled = {"WaitTimeSeconds": 3}
        calls = {"sqs": sqs_calls(handle, task), "sns": sns_calls(subscribed, endpoint)}
        calls["sqs"]["ReceiveMessage"] |= polled
        return [(name, action, members) for name, of in calls.items() for action, members in of.items()]

    @contextmanager
    def calling(self) -> Iterator[None]:
        threads = [Thread(target=self._call, args=(number,)) for number in range(CALLERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._end.set()
            for thread in threads:
                thread.join()

    def go_on(self) -> None:
        """Wait until each has made all calls once more."""
        goals = [made + len(self._calls) for made in self.made]
        wait_until(
            lambda: self.failures or all(made >= goal for made, goal in zip(self.made, goals, strict=True)),
            self._service.said,
        )

    def _call(self, number: int) -> None:
        clients = {name: self._client(name) for name in ("sqs", "sns")}
        turn = number * len(self._calls) // CALLERS
        while not self._end.is_set():
            name, action, members = self._calls[turn % len(self._calls)]
            turn += 1
            try:
                getattr(clients[name], xform_name(action))(**members)
            except ClientError as error:  # a refusal of what is asked is an answer
                if error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
                    self.failures.append(f"{action}: {error}")
            except BotoCoreError as error:
                self.failures.append(f"{action}: {error!r}")
            self.made[number] += 1


def _is_another(service: Up, pid: int) -> bool:
    return pid_of(service, "store") not in (0, pid)


@pytest.mark.extended
def test_no_call_fails_while_the_store_is_killed(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--api", "2", "--auth", "off") as service:
        callers = Callers(service)
        with callers.calling():
            callers.go_on()
            for _ in range(KILLS):
                before = pid_of(service, "store")
                os.kill(before, signal.SIGKILL)
                wait_until(partial(_is_another, service, before))
                callers.go_on()
        assert callers.failures == [], service.said()[-10_000:]
