"""TLS that the service ends itself: certificates that change under load, and callers with certificates."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from cryptography import x509
from cryptography.x509.oid import NameOID

from cns_pytest.processes import exports
from lab.harness.ports import free_port
from lab.harness.running import Up, running, start
from lab.harness.service import REGION
from lab.harness.waiting import wait_until
from tests.private_servers.certificates import Authority

SUBJECT = "CN=billing,O=Acme\\, Inc.,C=DE"


def _subject(common_name: str) -> x509.Name:
    values = {NameOID.COUNTRY_NAME: "DE", NameOID.ORGANIZATION_NAME: "Acme, Inc.", NameOID.COMMON_NAME: common_name}
    return x509.Name([x509.NameAttribute(name, value) for name, value in values.items()])


def up(directory: Path, authority: Authority, **environment: str) -> Any:
    """The service on https, with certificate and key `server`."""
    certificate, key = authority.issue_server()
    port = free_port()
    options = ("--tls-cert", str(certificate), "--tls-key", str(key))
    url = f"https://127.0.0.1:{port}"
    return running(directory / "data", *options, port=port, url=url, ca_file=authority.file, environment=environment)


def client(service: Up, name: str, pair: tuple[Path, Path] | None = None) -> Any:
    """A client of boto3 with its defaults, and a certificate."""
    return boto3.client(
        name,
        endpoint_url=service.url,
        region_name=REGION,
        aws_access_key_id=service.environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=service.environment["AWS_SECRET_ACCESS_KEY"],
        verify=str(service.ca_file),
        config=Config(client_cert=None if pair is None else (str(pair[0]), str(pair[1]))),
    )


# -- certificates that change -----------------------------------------------------------------------------------------


class Load(threading.Thread):
    """Calls until `stop`: one client keeps its connections, the other makes a new one for each call."""

    def __init__(self, service: Up, queue: str, *, anew: bool) -> None:
        super().__init__(daemon=True)
        self._service, self._queue, self._anew = service, queue, anew
        self._sqs = client(service, "sqs")
        self._ends = threading.Event()
        self.calls = 0
        self.failures: list[Exception] = []

    def run(self) -> None:
        while not self._ends.is_set():
            try:
                if self._anew:
                    httpx.get(f"{self._service.url}/live", verify=trusting(self._service)).raise_for_status()
                else:
                    self._sqs.send_message(QueueUrl=self._queue, MessageBody="x")
            except (ClientError, BotoCoreError, httpx.HTTPError) as error:
                self.failures.append(error)
            self.calls += 1

    def stop(self) -> None:
        self._ends.set()
        self.join()

    def wait_calls(self, number: int = 20) -> None:
        until = self.calls + number
        wait_until(lambda: self.calls >= until)


def trusting(service: Up) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(service.ca_file))


def served(service: Up) -> str:
    return ssl.get_server_certificate(("127.0.0.1", int(service.url.rpartition(":")[2])))


def test_certificates_are_read_again_under_load(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with up(tmp_path, authority) as service:
        queue = client(service, "sqs").create_queue(QueueName="q")["QueueUrl"]
        loads = [Load(service, queue, anew=anew) for anew in (False, True)]
        for load in loads:
            load.start()
        try:
            old = served(service)
            files = {name: tmp_path / f"server.{name}" for name in ("pem", "key")}
            pairs = [dict(zip(files, authority.issue_server(f"new{number}"), strict=True)) for number in range(2)]
            files["pem"].write_bytes(pairs[0]["pem"].read_bytes())  # and not its key
            wait_until(lambda: service.events("tls.reload_failed"), service.said)
            for load in loads:
                load.wait_calls()
            assert served(service) == old
            for pair in pairs:
                for name, path in files.items():
                    path.write_bytes(pair[name].read_bytes())
                wanted = pair["pem"].read_text()
                wait_until(lambda: served(service) == wanted, service.said)  # noqa: B023  # within this turn
                for load in loads:
                    load.wait_calls()
        finally:
            for load in loads:
                load.stop()
        assert [load.failures for load in loads] == [[], []]
        assert len(service.events("tls.reload_failed")) == 1
        assert len(service.events("tls.reloaded")) == 2


# -- callers with certificates ----------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def callers(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "callers")


@pytest.fixture
def service(tmp_path: Path, authority: Authority, callers: Authority) -> Iterator[Up]:
    with up(tmp_path, authority, CNS_CLIENT_CA=str(callers.file)) as started:
        yield started


def test_a_policy_names_the_subject_of_a_certificate(tmp_path: Path, service: Up, callers: Authority) -> None:
    billing, other = (callers.issue(name, _subject(name)) for name in ("billing", "other"))
    foreign = Authority(tmp_path, "foreign").issue("foreign", _subject("billing"))
    sqs = client(service, "sqs")
    queue = sqs.create_queue(QueueName="q")["QueueUrl"]
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:SendMessage",
        "Resource": "*",
        "Condition": {"StringNotEquals": {"cns:ClientCertificateSubject": SUBJECT}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": policy})
    client(service, "sqs", billing).send_message(QueueUrl=queue, MessageBody="x")
    for pair in (None, other):
        with pytest.raises(ClientError, match="AccessDenied"):
            client(service, "sqs", pair).send_message(QueueUrl=queue, MessageBody="x")
    with pytest.raises(BotoCoreError):
        client(service, "sqs", foreign).send_message(QueueUrl=queue, MessageBody="x")
    keys = (service.environment["AWS_ACCESS_KEY_ID"], service.environment["AWS_SECRET_ACCESS_KEY"])
    _, _, _, account, name = queue.split("/")
    path = f"{service.url}/api/v1/accounts/{account}/queues/{name}/messages"
    statuses = []
    for pair in (billing, other):
        context = trusting(service)
        context.load_cert_chain(*pair)
        sent = httpx.post(path, json={"body": "x"}, auth=keys, params={"region": REGION}, verify=context)
        statuses.append(sent.status_code)
    assert statuses == [201, 403], "the REST API knows the certificate, too"


def test_a_certificate_of_a_proxy_is_not_its_clients(tmp_path: Path, authority: Authority, callers: Authority) -> None:
    proxy = callers.issue("billing", _subject("billing"))
    environment = {"CNS_CLIENT_CA": str(callers.file), "CNS_TRUSTED_PROXIES": "127.0.0.1"}
    with up(tmp_path, authority, **environment) as service:
        sqs = client(service, "sqs", proxy)
        queue = sqs.create_queue(QueueName="q")["QueueUrl"]
        statement = {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sqs:SendMessage",
            "Resource": "*",
            "Condition": {"Null": {"cns:ClientCertificateSubject": "true"}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": policy})
        with pytest.raises(ClientError, match="AccessDenied"):
            sqs.send_message(QueueUrl=queue, MessageBody="x")


def test_certificates_may_be_required(tmp_path: Path, authority: Authority, callers: Authority) -> None:
    environment = {"CNS_CLIENT_CA": str(callers.file), "CNS_CLIENT_CERTIFICATE": "required"}
    certificate, key = authority.issue_server()
    port = free_port()
    options = ("--tls-cert", str(certificate), "--tls-key", str(key))
    service = start(
        tmp_path / "data",
        *options,
        port=port,
        url=f"https://127.0.0.1:{port}",
        ca_file=authority.file,
        environment=environment,
    )
    try:
        service.process.wait_printed("AWS_SECRET_ACCESS_KEY")
        service.environment.update(exports(service.said()))
        sqs = client(service, "sqs", callers.issue("billing", _subject("billing")))
        assert sqs.create_queue(QueueName="q")["QueueUrl"]
        with pytest.raises(BotoCoreError):
            client(service, "sqs").list_queues()
    finally:
        service.stop()
