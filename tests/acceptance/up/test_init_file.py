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


ACCOUNTS = """
accounts:
  123456789012:
    name: Shop
    key: {id: {env: SHOP_ID}, secret: {env: SHOP_SECRET}}
    users:
      alice:
        keys: [{id: {env: ALICE_ID}, secret: {file: alice.secret}}]
    queues: {orders: }
  210987654321:
    key: {id: {env: OTHER_ID}, secret: {env: SHOP_SECRET}}
    topics: {news: }
"""


def test_accounts_have_the_keys_that_the_file_refers_to(tmp_path: Path) -> None:
    """No account is made besides them, and no secret is printed or stored in the clear."""
    file, data, secret = tmp_path / "init.yaml", tmp_path / "data", "s" * 40
    file.write_text(ACCOUNTS.replace("alice.secret", str(tmp_path / "alice.secret")))
    (tmp_path / "alice.secret").write_text("a" * 40 + "\n")
    ids = {"SHOP_ID": "AKIA" + "A" * 16, "ALICE_ID": "AKIA" + "B" * 16, "OTHER_ID": "AKIA" + "C" * 16}
    variables = {**ids, "SHOP_SECRET": secret}
    for made in ("2 created", "2 unchanged"):
        with running(data, "--init", str(file), environment=variables) as service:
            assert f"{file}: {made}" in service.said()
            assert not {secret, "AWS_SECRET_ACCESS_KEY"} & {*service.said().replace("=", " ").split()}
            for key, value, account in (("SHOP_ID", secret, "123456789012"), ("ALICE_ID", "a" * 40, "123456789012")):
                sts = service.client("sts", key=ids[key], secret=value)
                assert sts.get_caller_identity()["Account"] == account
            sqs = service.client("sqs", key=ids["SHOP_ID"], secret=secret, region_name=DEFAULT_REGION)
            assert sqs.list_queues()["QueueUrls"][0].endswith("/123456789012/orders")
            sns = service.client("sns", key=ids["OTHER_ID"], secret=secret, region_name=DEFAULT_REGION)
            assert sns.list_topics()["Topics"][0]["TopicArn"].endswith(":210987654321:news")
            assert service.copies(secret) == 0


def test_a_key_in_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "init.yaml"
    file.write_text("accounts:\n  123456789012:\n    key: {id: AKIAIOSFODNN7EXAMPLE, secret: inline}\n  1: {}\n")
    refused = start(tmp_path / "data", "--init", str(file))
    assert refused.process.wait() == EXIT_SETTINGS_WRONG
    assert refused.said().count("is {env: NAME} or {file: PATH}: the file holds no keys") == 2
    assert f"{file}:4: accounts.1: " in refused.said() and "inline" not in refused.said()
