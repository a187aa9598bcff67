"""The pytest plugin, installed as a wheel, in a project that has folders named as packages of the service."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
from functools import partial
from pathlib import Path

import pytest

from lab.harness.waiting import PATIENCE_S, wait_until

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
WORKERS = """import os
import boto3

def place_order(topic_arn, order):
    boto3.client("sns").publish(
        TopicArn=topic_arn,
        Message=order,
        MessageAttributes={"event": {"DataType": "String", "StringValue": "order-placed"}},
    )
"""
FAILING = """
def test_it_tells_what_happened(cns_service, cns_topic, cns_endpoint):
    topic, webhook, other = cns_topic(), cns_endpoint(404), cns_endpoint()
    refused, unexpected = topic.subscribe(webhook), topic.subscribe(other)
    message_id = topic.publish("hello")
    cns_service.wait_ended(message_id, 2)
    cns_service.assert_delivered(message_id, [refused])
"""
CLEANED = """
made = []

def test_one(cns_queue, cns_topic, cns_endpoint):
    made.extend([cns_queue(FifoQueue="true"), cns_topic()])
    made[1].subscribe(cns_queue())

def test_two(cns_sqs, cns_sns):
    assert not cns_sqs.list_queues().get("QueueUrls")
    assert not cns_sns.list_topics()["Topics"] and not cns_sns.list_subscriptions()["Subscriptions"]
    assert made[0].url.endswith(".fifo")

def test_a_setting(cns_sns):
    assert cns_sns.get_sms_sandbox_account_status()["IsInSandbox"]
"""
RESET = """
def test_one(cns_sqs):
    cns_sqs.create_queue(QueueName="same", Attributes={"VisibilityTimeout": "1"})

def test_two(cns_sqs, cns_service):
    assert not cns_sqs.list_queues().get("QueueUrls")
    cns_sqs.create_queue(QueueName="same", Attributes={"VisibilityTimeout": "2"})
    cns_service.reset()
    assert not cns_sqs.list_queues().get("QueueUrls")
"""
IN_OWN_SHELL = """
import boto3
import pytest

OWN = {
    "AWS_PROFILE": "other",
    "AWS_SESSION_TOKEN": "token",
    "AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:1",
    "HTTP_PROXY": "http://127.0.0.1:1",
    "http_proxy": "http://127.0.0.1:1",
}

@pytest.fixture(autouse=True)
def shell(monkeypatch):
    for name, value in OWN.items():
        monkeypatch.setenv(name, value)

def test_it_is_found(cns_environment, cns_service, cns_queue):
    url = cns_queue().url
    boto3.client("sqs").send_message(QueueUrl=url, MessageBody="m")
    boto3.client("sqs").delete_queue(QueueUrl=url)
    assert cns_service.client("sts").get_caller_identity()["Account"]
    cns_service.advance(1)

def test_a_topic_may_be_deleted(cns_sns, cns_topic):
    cns_sns.delete_topic(TopicArn=cns_topic().arn)
"""
KILLED = """
import os, pathlib, signal

def test_it_is_killed(cns_service, cns_receiver):
    pathlib.Path("urls").write_text(f"{cns_service.url} {cns_receiver}")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with packages `workers` and `common`, and a directory `tests`."""
    files = {
        "workers/__init__.py": "",
        "workers/orders.py": WORKERS,
        "common/__init__.py": "",
        "common/names.py": 'ORDER_PLACED = "order-placed"\n',
        "tests/conftest.py": "",
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\ncns_settings = ["CNS_SMS_SANDBOX=on"]\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run_pytest(installed: Path, project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CNS_", "PYTEST_"))}
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *words)
    return subprocess.run(
        [installed / "python", *words],
        cwd=project,
        env={**kept, "PYTHONPATH": str(project), "CNS_PORT": "1"},  # the shell's, which the service under test ignores
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def test_the_example_of_the_documentation_passes(installed: Path, project: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (project / "tests" / "test_orders.py").write_text(example)
    (project / "tests" / "test_cleaned.py").write_text(CLEANED)
    (project / "tests" / "test_shell.py").write_text(IN_OWN_SHELL)
    done = run_pytest(installed, project)
    assert done.returncode == 0 and "8 passed" in done.stdout, done.stdout + done.stderr


def test_tests_may_begin_with_an_empty_service(installed: Path, project: Path) -> None:
    (project / "tests" / "test_reset.py").write_text(RESET)
    done = run_pytest(installed, project, "-o", "cns_reset=true")
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.extended
def test_a_failed_assertion_tells_what_happened_to_each_subscription(installed: Path, project: Path) -> None:
    (project / "tests" / "test_failing.py").write_text(FAILING)
    done = run_pytest(installed, project)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"not delivered to arn:\S+: attempt 1 failed \(status, 404\)", done.stdout), done.stdout
    assert re.search(r"delivered to arn:\S+, which was not expected", done.stdout)


@pytest.mark.extended
def test_a_service_that_cannot_start_is_one_error(installed: Path, project: Path) -> None:
    (project / "tests" / "test_one.py").write_text("def test_one(cns_service): pass\n")
    done = run_pytest(installed, project, "-o", "cns_settings=CNS_LOG_LEVEL=loud")
    assert done.returncode == 1 and "CNS_LOG_LEVEL" in done.stdout and "ended with 71" in done.stdout, done.stdout


@pytest.mark.extended
def test_what_it_started_ends_with_a_pytest_that_is_killed(installed: Path, project: Path) -> None:
    (project / "tests" / "test_killed.py").write_text(KILLED)
    done = run_pytest(installed, project)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    for url in (project / "urls").read_text().split():
        port = int(url.rpartition(":")[2])
        wait_until(partial(is_refused, port))


def is_refused(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED
