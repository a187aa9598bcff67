"""`cns up --init`: what the file declares is there before the first call is answered, at each start."""

from __future__ import annotations

from pathlib import Path

from lab.harness.running import running, start
from tests.acceptance.up.test_up import EXIT_SETTINGS_WRONG

DEFAULT_REGION = "us-east-1"
"""The service's own region, in which the file is applied."""
FILE = """
queues:
  orders: {deadLetterQueue: {queue: dead, maxReceiveCount: 3}}
  dead:
topics: {news: }
subscriptions: [{topic: news, protocol: sqs, endpoint: orders, allow: true, rawDelivery: true}]
"""


def test_a_file_is_applied_at_each_start(tmp_path: Path) -> None:
    file, data = tmp_path / "init.yaml", tmp_path / "data"
    file.write_text(FILE)
    with running(data, "--init", str(file)) as first:
        assert f"{file}: 4 created" in first.said()
        sns, sqs = [first.client(name, region_name=DEFAULT_REGION) for name in ("sns", "sqs")]
        sns.publish(TopicArn=sns.list_topics()["Topics"][0]["TopicArn"], Message="kept")
        url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="dead")["QueueUrl"])
        sqs.create_queue(QueueName="other")
    file.write_text(FILE.replace("  dead:", "  dead2:").replace("queue: dead,", "queue: dead2,"))
    with running(data, "--init", str(file), "--api", "2") as second:
        second.environment.update(first.environment)
        assert "1 created, 1 changed, 2 unchanged" in second.said()
        sqs = second.client("sqs", region_name=DEFAULT_REGION)
        assert [message["Body"] for message in sqs.receive_message(QueueUrl=url)["Messages"]] == ["kept"]
        names = [url.rpartition("/")[2] for url in sqs.list_queues()["QueueUrls"]]
        assert names == ["dead2", "orders", "other"]


def test_a_file_that_is_refused_ends_the_start(tmp_path: Path) -> None:
    file = tmp_path / "init.yaml"
    file.write_text("queues:\n  a: {b: c}\n  d: {attributes: {DelaySeconds: -1}}\n")
    said = f"cns: {file}:2: queues.a.b: is no key here\ncns: {file}:3: queues.d.attributes.DelaySeconds: "
    refused = start(tmp_path / "data", "--init", str(file))
    assert (refused.process.wait(), said in refused.said()) == (EXIT_SETTINGS_WRONG, True)
