"""`POST /_cns/reset`: a service with a test clock begins empty again; others have no such page."""

from __future__ import annotations

import json
from pathlib import Path

from cns_pytest.http import fetch
from lab.harness.ports import free_port
from lab.harness.running import Up, running
from lab.harness.service import Service
from lab.harness.waiting import wait_until

ACCOUNTS = ("123456789012", "210987654321")
"""Without signatures an access key names its account, which no list has."""


def test_all_accounts_begin_empty_again(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--auth", "off", "--test-clock") as service:
        for key in ACCOUNTS:
            sqs, sns = service.client("sqs", key=key), service.client("sns", key=key)
            queue = sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "7"})["QueueUrl"]
            sqs.send_message(QueueUrl=queue, MessageBody="m", DelaySeconds=900)
            topic = sns.create_topic(Name="t")["TopicArn"]
            sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=f"http://127.0.0.1:{free_port()}/")
            sns.create_platform_application(Name="a", Platform="GCM", Attributes={"PlatformCredential": "c"})
            sns.publish(PhoneNumber="+15550100", Message="text")
        wait_until(lambda: len(_outbox(service)) == 2)
        for _ in range(2):  # an empty service stays so
            status, answer = fetch(f"{service.url}/_cns/reset", b"", method="POST")
            assert status == 200 and json.loads(answer)["offset_ms"] >= 60_000
        for key in ACCOUNTS:
            sqs, sns = service.client("sqs", key=key), service.client("sns", key=key)
            assert "QueueUrls" not in sqs.list_queues()
            assert sns.list_topics()["Topics"] == sns.list_subscriptions()["Subscriptions"] == []
            assert sns.list_platform_applications()["PlatformApplications"] == []
            again = sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "8"})["QueueUrl"]
            counted = sqs.get_queue_attributes(QueueUrl=again, AttributeNames=["All"])["Attributes"]
            assert counted["ApproximateNumberOfMessagesDelayed"] == counted["ApproximateNumberOfMessages"] == "0"
        assert _outbox(service) == []


def test_without_a_test_clock_there_is_no_such_page(open_service: Service) -> None:
    status, answer = fetch(f"{open_service.url}/_cns/reset", b"", method="POST")
    assert status == 404, answer


def _outbox(service: Up) -> list[str]:
    return service.cns("outbox", "list").stdout.splitlines()
