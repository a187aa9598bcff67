"""`cns up` with its options: no signatures, another public URL, TLS, several API processes."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from cns_common.metrics.catalogue import (
    API_CALL_FAILURES,
    API_CALL_SECONDS,
    ATTEMPTS_FAILED,
    BACKGROUND_STATEMENTS,
    CACHE_LOOKUPS,
    CASSANDRA_BYTES,
    CASSANDRA_STATEMENTS,
    CLOCK_OFFSET_SECONDS,
    CLOCK_RECEIVES_REFUSED,
    DELIVERY_ATTEMPT_SECONDS,
    DELIVERY_SECONDS,
    EVENT_SEGMENTS_UNREAD,
    EVENT_SEGMENTS_UNREAD_BYTES,
    EVENT_SEGMENTS_UNREAD_LEFT_SECONDS,
    EVENT_SEGMENTS_UNREAD_SHARE,
    FANOUT_SECONDS,
    JOB_WAIT_SECONDS,
    LIVE_PROCESSES,
    METRICS,
    OWNED_QUEUES,
    QUEUE_DEPTH,
    QUEUE_DUPLICATE_DELIVERIES,
    QUEUE_MESSAGES,
    QUEUE_OLDEST_SECONDS,
    RECONCILE_LAG_SECONDS,
    RECONCILE_REPAIRS,
    REDIS_OUTAGES,
    REDIS_REACHED_BY,
    REDIS_UP,
)
from cns_pytest.http import fetch
from lab.harness.endpoints import Endpoint
from lab.harness.ports import free_port
from lab.harness.processes import keys_in
from lab.harness.running import Up, cns, running
from lab.harness.waiting import wait_until
from tests.acceptance.polls import Poll
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_one, signature_is_good
from tests.marks import extended

PROCESSES = {"store", "api-1", "api-2", "worker"}
SPREAD = 12
"""So many connections do not all meet the same one of two processes."""


def envelope_through(service: Up, **options: str) -> dict[str, str]:
    """One notification from a topic to a queue."""
    sqs, sns = service.client("sqs", **options), service.client("sns", **options)
    topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
    queue = queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, queue))
    topic.publish("x")
    envelope: dict[str, str] = json.loads(receive_one(sqs, queue)["Body"])
    return envelope


# -- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.extended
@pytest.mark.parametrize("host", ["127.0.0.1", *extended("::1")])
def test_policies_know_ipv4_clients_of_an_ipv6_socket(tmp_path: Path, host: str) -> None:
    """`::ffff:127.0.0.1` is no address of any IPv4 network: a Deny for one would let it pass."""
    with running(tmp_path / "data", "--host", "::") as service:
        sqs = service.client("sqs", region_name="us-east-1")  # the region of unsigned calls
        denied = sqs.create_queue(QueueName="denied")["QueueUrl"]
        allowed = sqs.create_queue(QueueName="allowed")["QueueUrl"]
        local = {"IpAddress": {"aws:SourceIp": ["127.0.0.0/8", "::1/128"]}}
        elsewhere = {"NotIpAddress": {"aws:SourceIp": ["127.0.0.0/8", "::1/128"]}}
        conditions = {denied: [("Allow", {}), ("Deny", local)], allowed: [("Allow", local), ("Deny", elsewhere)]}
        for url, effects in conditions.items():
            who = {"Principal": "*", "Action": "sqs:SendMessage", "Resource": arn_of(sqs, url)}
            statements = [{"Effect": effect, **who, "Condition": condition} for effect, condition in effects]
            policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        statuses = {}
        shown = f"[{host}]" if ":" in host else host
        for url in conditions:
            path = url.partition("://")[2].partition("/")[2]
            port = service.url.rpartition(":")[2]
            form = b"Action=SendMessage&Version=2012-11-05&MessageBody=x"
            headers = {"content-type": "application/x-www-form-urlencoded"}
            statuses[url] = fetch(f"http://{shown}:{port}/{path}", form, headers)[0]
        assert statuses == {denied: 403, allowed: 200}


# -- no signatures ----------------------------------------------------------------------------------------------------


def test_without_auth_the_key_names_the_account(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--auth", "off") as service:
        assert "ANY credentials pass" in service.said()
        told = re.findall(r"account (\d{12})", service.said())
        own = service.client("sts").get_caller_identity()["Account"]
        assert set(told) == {own} == {"000000000000"}, "the account is told that the printed keys get"
        accounts = {
            key: service.client("sts", key=key, secret="wrong").get_caller_identity()["Account"]
            for key in ("123456789012", "test", "AKIAIOSFODNN7EXAMPLE")
        }
        assert accounts == {
            "123456789012": "123456789012",
            "test": "000000000000",
            "AKIAIOSFODNN7EXAMPLE": "000000000000",
        }
        assert service.client("sts", key="bob", secret="wrong").get_caller_identity()["Arn"] == (
            "arn:aws:iam::000000000000:user/bob"
        )
        assert (
            service.client("sts", key="no*name").get_caller_identity()["Arn"] == "arn:aws:iam::000000000000:user/test"
        )
        mine, theirs = service.client("sqs", key="111111111111"), service.client("sqs", key="222222222222")
        queue = mine.create_queue(QueueName="q")["QueueUrl"]
        assert queue == f"{service.url}/111111111111/q"
        assert "QueueUrls" not in theirs.list_queues()
        theirs.send_message(QueueUrl=queue, MessageBody="no policy is asked")
        assert receive_one(mine, queue)["Body"] == "no policy is asked"
        status, body = fetch(f"{service.url}/?Action=ListQueues&Version=2012-11-05")
        assert (status, b"ListQueuesResponse" in body) == (200, True), "nor any signature"


# -- URLs -------------------------------------------------------------------------------------------------------------


@pytest.mark.extended
def test_a_public_url_is_in_all_that_is_handed_out(tmp_path: Path, endpoint: Endpoint) -> None:
    public = "https://queues.example.org/aws"
    with running(tmp_path / "data", "--public-url", public + "/") as service:
        assert service.environment["AWS_ENDPOINT_URL"] == public
        assert f"on {public}," in service.said()
        sqs, sns = service.client("sqs"), service.client("sns")
        assert sqs.create_queue(QueueName="q")["QueueUrl"].startswith(f"{public}/")
        sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName="q")["QueueUrl"], MessageBody="x")
        envelope = envelope_through(service)
        assert envelope["SigningCertURL"].startswith(f"{public}/SimpleNotificationService-")
        assert envelope["UnsubscribeURL"].startswith(f"{public}/?Action=Unsubscribe&")
        endpoint.confirm("never")
        topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
        topic.request_subscription("http", endpoint.url)
        (request,) = endpoint.wait(confirmations=1)["messages"]
        assert json.loads(request["body"])["SubscribeURL"].startswith(f"{public}/?Action=ConfirmSubscription&")


def test_tls(tmp_path: Path, endpoint: Endpoint) -> None:
    certificate, key = _certificate(tmp_path)
    port = free_port()
    options = ("--tls-cert", str(certificate), "--tls-key", str(key))
    with running(
        tmp_path / "data", *options, port=port, url=f"https://127.0.0.1:{port}", ca_file=certificate
    ) as service:
        assert service.environment["AWS_ENDPOINT_URL"] == service.url
        envelope = envelope_through(service)
        assert envelope["SigningCertURL"].startswith(service.url)
        assert signature_is_good(envelope, ca_file=certificate)
        queue = service.client("sqs").create_queue(QueueName="q")["QueueUrl"]
        assert queue.startswith(service.url)
        poll = Poll(service, queue)
        poll.start()
        service.client("sqs").send_message(QueueUrl=queue, MessageBody="wake")
        assert poll.bodies() == ["wake"]
        sns = service.client("sns")
        Topic(sns, sns.create_topic(Name="http")["TopicArn"]).subscribe("http", endpoint.url)
        pids, right = service.pids(), certificate.read_bytes()
        certificate.write_text("my diary")
        refused = service.cns("restart", check=False)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert (
            f"not restarted: the new code ends with 76: cannot use the TLS certificate {certificate}" in refused.stderr
        )
        certificate.write_bytes(right)
        assert service.pids() == pids
        service.cns("restart")
        assert not {*service.pids().values()} & {*pids.values()}
        assert service.stop() == 0, "although clients keep their connections"


def _certificate(directory: Path) -> tuple[Path, Path]:
    """Self-signed, for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cns acceptance")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_path, key_path = directory / "cert.pem", directory / "key.pem"
    certificate_path.write_bytes(certificate.public_bytes(Encoding.PEM))
    key_path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate_path, key_path


# -- several API processes --------------------------------------------------------------------------------------------


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Up]:
    with running(tmp_path / "data", "--api", "2", "--test-clock") as started:
        yield started


def test_a_publish_reaches_a_queue_without_a_worker(tmp_path: Path) -> None:
    """Each API process delivers in the commit of the publish, through the socket of the store."""
    with running(tmp_path / "data", "--api", "2", "--no-worker", page="/live") as service:
        sqs, sns = service.client("sqs"), service.client("sns")
        topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
        queue = queue_for(sqs, topic.arn)
        topic.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery="true")
        for n in range(SPREAD):
            Topic(service.client("sns"), topic.arn).publish(str(n))
        received: list[str] = []
        while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
            received += [message["Body"] for message in messages]
        assert received == [str(n) for n in range(SPREAD)]


@pytest.mark.extended
def test_several_api_processes_are_one_service(several: Up, endpoint: Endpoint) -> None:
    assert set(several.pids()) == PROCESSES
    queues = [several.client("sqs").create_queue(QueueName=f"q{n}")["QueueUrl"] for n in range(SPREAD)]
    polls = [Poll(several, queue) for queue in queues]
    for poll in polls:
        poll.begin()
    for n, queue in enumerate(queues):
        several.client("sqs").send_message(QueueUrl=queue, MessageBody=str(n))
    assert [poll.bodies() for poll in polls] == [[str(n)] for n in range(SPREAD)]

    sns = several.client("sns")
    topic = Topic(sns, sns.create_topic(Name="http")["TopicArn"])
    topic.subscribe("http", endpoint.url)
    topic.publish("x")
    endpoint.wait(received=1, good=1)

    keys = keys_in(cns("account", "create", "--data", several.data).stdout)
    seen = [several.client("sts", **keys).get_caller_identity()["Account"] for _ in range(SPREAD)]
    renewed = keys_in(cns("account", "rotate", seen[0], "--data", several.data).stdout)
    for _ in range(SPREAD):
        assert several.client("sts", **renewed).get_caller_identity()["Account"] == seen[0]
        with pytest.raises(several.client("sts").exceptions.ClientError):
            several.client("sts", **keys).get_caller_identity()

    delaying = several.client("sqs").create_queue(QueueName="delaying")["QueueUrl"]
    several.client("sqs").send_message(QueueUrl=delaying, MessageBody="later", DelaySeconds=900)
    several.advance(901)
    for queue in queues:
        several.client("sqs").set_queue_attributes(QueueUrl=queue, Attributes={"DelaySeconds": "7"})
        for _ in range(3):
            attributes = several.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["DelaySeconds"])
            assert attributes["Attributes"] == {"DelaySeconds": "7"}, "what one changes the other knows"
    assert receive_one(several.client("sqs"), delaying)["Body"] == "later"


def _is_shown_by(up: Up, metric: str, n: int) -> bool:
    return len(_processes(up, metric)) == n


def _processes(service: Up, name: str) -> set[str]:
    """The processes that have a metric, each once."""
    found = [labels for labels in service.samples() if labels[0] == name]
    processes = {re.sub(r'.*process="([a-z0-9-]+)".*', r"\1", ",".join(sorted(labels))) for _, labels in found}
    assert len(processes) == len(found)
    return processes


@pytest.mark.extended
def test_each_process_shows_its_version_and_memory(several: Up) -> None:
    pids = several.pids()
    roles = {name: name.partition("-")[0] for name in pids}
    asked = {f"{roles[name]}-{pid}" for name, pid in pids.items()}
    for metric in ("cns_build_info", "process_resident_memory_bytes"):
        wait_until(partial(_is_shown_by, several, metric, 3))
        processes = _processes(several, metric)
        assert processes < asked  # one answer of /metrics is about one API process
        assert {f"store-{pids['store']}", f"worker-{pids['worker']}"} <= processes


@pytest.mark.extended
def test_counters_are_there_before_anything_happens(tmp_path: Path) -> None:
    with running(tmp_path / "data") as service:
        wait_until(lambda: service.is_ready())
        samples = service.samples()
        shown = {re.sub("_(bucket|count|sum)$", "", name) for name, _ in samples}
        cluster = {
            REDIS_UP,
            REDIS_OUTAGES,
            RECONCILE_REPAIRS,
            RECONCILE_LAG_SECONDS,
            QUEUE_DUPLICATE_DELIVERIES,
            CACHE_LOOKUPS,
            LIVE_PROCESSES,
            CLOCK_RECEIVES_REFUSED,
            BACKGROUND_STATEMENTS,
            OWNED_QUEUES,
            CLOCK_OFFSET_SECONDS,
            CASSANDRA_BYTES,
            REDIS_REACHED_BY,
        }
        ingested = {
            EVENT_SEGMENTS_UNREAD,
            EVENT_SEGMENTS_UNREAD_BYTES,
            EVENT_SEGMENTS_UNREAD_LEFT_SECONDS,
            EVENT_SEGMENTS_UNREAD_SHARE,
        }
        later = {
            *cluster,
            *ingested,
            QUEUE_DEPTH,
            QUEUE_MESSAGES,
            QUEUE_OLDEST_SECONDS,
            CASSANDRA_STATEMENTS,
            API_CALL_FAILURES,
            ATTEMPTS_FAILED,
            DELIVERY_ATTEMPT_SECONDS,
            DELIVERY_SECONDS,
            API_CALL_SECONDS,
            JOB_WAIT_SECONDS,
            FANOUT_SECONDS,
        }
        assert set(METRICS) - shown == {metric.name for metric in later}
        assert service.metric("cns_notifications_dropped_total") == 0
        assert service.metric("cns_api_calls_total") == 0
        assert len(_processes(service, "cns_build_info")) == 2  # the API, which hosts the store, and the worker


@pytest.mark.extended
def test_of_two_workers_each_delivers_and_one_may_die(tmp_path: Path, endpoint: Endpoint) -> None:
    with running(tmp_path / "data", "--workers", "2") as service:
        pids = service.pids()
        assert set(pids) == {"api", "worker-1", "worker-2"}
        sns = service.client("sns")
        topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
        topic.subscribe("http", endpoint.url)
        both = {pids["worker-1"], pids["worker-2"]}
        before = topic.publish_until(lambda: _delivering(service) == both, service.said)
        endpoint.wait(distinct_messages=before)
        for n in range(25):
            topic.publish(f"around {n}")
        os.kill(pids["worker-1"], signal.SIGKILL)
        for n in range(25):
            topic.publish(f"after {n}")
        endpoint.wait(distinct_messages=before + 50)
        wait_until(lambda: _recovered(service, "worker-1", pids["worker-1"]), service.said)


def _delivering(service: Up) -> set[int]:
    """The processes that say they delivered something."""
    _, metrics = service.get("/metrics")
    return {
        int(pid) for pid in re.findall(r'cns_deliveries_total\{process="worker-(\d+)",.*\} [1-9]', metrics.decode())
    }


@pytest.mark.extended
@pytest.mark.parametrize("name", ["store", *extended("api-1")])
def test_each_of_several_processes_may_die(several: Up, endpoint: Endpoint, name: str) -> None:
    sqs, sns = several.client("sqs", tries=10), several.client("sns", tries=10)
    queue = sqs.create_queue(QueueName="q")["QueueUrl"]
    topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
    topic.subscribe("http", endpoint.url)
    sqs.send_message(QueueUrl=queue, MessageBody="kept")
    pids = several.pids()
    os.kill(pids[name], signal.SIGKILL)
    wait_until(lambda: _recovered(several, name, pids[name]), several.said)
    assert receive_one(sqs, queue)["Body"] == "kept"
    for _ in range(SPREAD):
        assert several.client("sqs", tries=10).list_queues()["QueueUrls"] == [queue]
    topic.publish("x")
    endpoint.wait(received=1)


def _recovered(service: Up, name: str, former_pid: int) -> bool:
    """Another process has taken the place of the one killed, and all is ready."""
    try:
        return service.is_ready() and service.pids()[name] not in (0, former_pid)
    except OSError:
        return False
