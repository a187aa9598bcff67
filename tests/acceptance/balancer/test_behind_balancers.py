"""boto3 with its defaults over TLS, through HAProxy and nginx: who the client is, in policies, acts and sign-ins.

A balancer connects from 127.0.0.5, which is trusted; clients from 127.0.0.1 and others, which are not.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError

from lab.harness.ports import free_port
from lab.harness.processes import HOST, ROOT, Process, is_open, plain_environment
from lab.harness.running import Up, running
from lab.harness.servers import program
from lab.harness.service import REGION
from tests.private_servers.certificates import Authority

BALANCER = "127.0.0.5"
STRANGER = "127.0.0.7"
FORGED = "203.0.113.9"
LIES = {
    "X-Forwarded-For": FORGED,
    "Forwarded": f"for={FORGED};proto=http",
    "X-Forwarded-Host": "elsewhere.example",
    "X-Real-IP": FORGED,
}
TRIES = 5
"""Wrong passwords that one address may try at once on one name."""


@dataclass(frozen=True)
class Form:
    """A balancer's configuration in `deploy/`, and who ends TLS."""

    program: str
    file: str
    environment: Mapping[str, str]
    service_has_tls: bool = False


PROXY = {"CNS_PROXY_PROTOCOL": "on"}
FORMS = {
    "haproxy-headers": Form("haproxy", "haproxy.cfg", {}),
    "haproxy-proxy-protocol": Form("haproxy", "haproxy.cfg", PROXY),
    "haproxy-tls": Form("haproxy", "haproxy-tls.cfg", PROXY, service_has_tls=True),
    "nginx-headers": Form("nginx", "nginx.conf", {}),
}


@dataclass(frozen=True)
class Placed:
    """A service and the https URL of its balancer."""

    service: Up
    url: str
    ca_file: Path

    def client(self, name: str, **headers: str) -> Any:
        """A client of boto3 with its defaults, which sends these headers, too."""
        client = boto3.client(
            name,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=self.service.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.service.environment["AWS_SECRET_ACCESS_KEY"],
            verify=str(self.ca_file),
        )
        client.meta.events.register("before-send", lambda request, **_: request.headers.update(headers))
        return client

    def http(self, source: str = HOST, url: str = "") -> httpx.Client:
        """A client that connects from this address."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        transport = httpx.HTTPTransport(local_address=source, verify=context)
        keys = (self.service.environment["AWS_ACCESS_KEY_ID"], self.service.environment["AWS_SECRET_ACCESS_KEY"])
        return httpx.Client(base_url=url or self.url, transport=transport, auth=keys)


def configuration(form: Form, port: int, api: int, authority: Authority) -> str:
    """The configuration of `deploy/`, with the test's addresses and certificate."""
    text = (ROOT / "deploy" / form.file).read_text()
    certificate, key = authority.issue_server("balancer")
    if form.program == "haproxy":
        (certificate.parent / "both.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
        if not form.service_has_tls:
            text = text.replace('"${CNS_BALANCER}"', f'"${{CNS_BALANCER}}" ssl crt {certificate.parent}/both.pem')
        return text.replace("backend apis\n", f"backend apis\n    source {BALANCER}\n")
    for old, new in {
        "server 10.0.0.1:6059": f"server {HOST}:{api}",
        "        server 10.0.0.2:6059 max_fails=1 fail_timeout=2s;\n": "",
        "listen 443 ssl": f"listen {HOST}:{port} ssl",
        "/etc/cns/server.pem": str(certificate),
        "/etc/cns/server.key": str(key),
        "proxy_pass http://apis;": f"proxy_bind {BALANCER}; proxy_pass http://apis;",
    }.items():
        assert old in text
        text = text.replace(old, new)
    return text


@contextmanager
def placed(directory: Path, form: Form) -> Iterator[Placed]:
    authority = Authority(directory)
    api, port = free_port(), free_port()
    options: tuple[str, ...] = ()
    scheme = "http"
    if form.service_has_tls:
        certificate, key = authority.issue_server()
        options, scheme = ("--tls-cert", str(certificate), "--tls-key", str(key)), "https"
    environment = {"CNS_TRUSTED_PROXIES": BALANCER, **form.environment}
    url, ca_file = f"{scheme}://{HOST}:{api}", authority.file if form.service_has_tls else None
    binary = program(form.program)
    with running(directory / "data", *options, port=api, url=url, ca_file=ca_file, environment=environment) as service:
        path = directory / form.file
        path.write_text(configuration(form, port, api, authority))
        words = {
            "haproxy": ["-db", "-f", str(path)],
            "nginx": ["-c", str(path), "-p", str(directory), "-e", "stderr", "-g", "daemon off; pid nginx.pid;"],
        }[form.program]
        variables = {"CNS_BALANCER": f"{HOST}:{port}", "CNS_API_1": f"{HOST}:{api}", **form.environment}
        balancer = Process(
            [binary, *words], directory / "balancer.said", plain_environment(**variables), name=form.program, port=port
        )
        balancer.start()
        try:
            balancer.wait_until(lambda: is_open(port))
            found = Placed(service, f"https://{HOST}:{port}", authority.file)
            with found.http() as http:
                balancer.wait_until(lambda: http.get("/live").status_code == 200)
            yield found
        finally:
            balancer.stop()


def deny(**condition: Mapping[str, str]) -> dict[str, Any]:
    return {"Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*", "Condition": condition}


POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            deny(NotIpAddress={"aws:SourceIp": "127.0.0.1"}),
            deny(Bool={"aws:SecureTransport": "false"}),
        ],
    }
)


@pytest.mark.parametrize("name", FORMS)
def test_the_client_is_known(tmp_path: Path, name: str) -> None:
    form = FORMS[name]
    with placed(tmp_path, form) as place:
        sqs = place.client("sqs")
        queue = sqs.create_queue(QueueName="q")["QueueUrl"]
        assert queue.startswith(place.url), "links name the balancer, and https"
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": POLICY})
        sqs.send_message(QueueUrl=queue, MessageBody="x")
        place.client("sqs", **LIES).send_message(QueueUrl=queue, MessageBody="x")
        place.client("sqs", **{"X-Forwarded-For": "x" * 8_000}).send_message(QueueUrl=queue, MessageBody="x")
        account = queue.split("/")[3]
        send = f"/api/v1/accounts/{account}/queues/q/messages?region={REGION}"
        codes = {}
        for source in (HOST, STRANGER, HOST):  # HAProxy and nginx use connections to the service again
            for headers in ({}, LIES, {"X-Forwarded-For": HOST}):
                with place.http(source) as http:
                    codes[source, str(headers)] = http.post(send, json={"body": "x"}, headers=headers).status_code
        assert {source: {code for (of, _), code in codes.items() if of == source} for source in (HOST, STRANGER)} == {
            HOST: {201},
            STRANGER: {403},
        }
        lies = {**LIES, "X-Forwarded-For": HOST, "X-Forwarded-Proto": "https"}
        for source in (STRANGER, HOST):  # past the balancer
            with place.http(source, place.service.url) as http:
                told = http.post(send, json={"body": "x"}, headers=lies).status_code
            is_allowed = source == HOST and form.service_has_tls
            assert told == (201 if is_allowed else 403), source
        acts = [json.loads(line) for line in place.service.cns("activity", "--json").stdout.splitlines()]
        assert {act["address"] for act in acts if act["action"] == "sqs:CreateQueue"} == {HOST}
        check_sign_ins(place)


def check_sign_ins(place: Placed) -> None:
    """The limit of wrong passwords counts clients, and a cookie is for https."""
    wrong = {"account": "nobody", "password": "wrong-password", "region": REGION}
    with place.http(STRANGER) as stranger, place.http() as other:
        codes = [
            stranger.post("/ui/sign-in", data=wrong, headers={"x-forwarded-for": f"203.0.113.{number}"}).status_code
            for number in range(TRIES + 1)
        ]
        assert codes == [401] * TRIES + [429]
        assert other.post("/ui/sign-in", data=wrong).status_code == 401
        key = {"key_id": place.service.environment["AWS_ACCESS_KEY_ID"], "region": REGION}
        key["secret"] = place.service.environment["AWS_SECRET_ACCESS_KEY"]
        signed_in = other.post("/ui/sign-in", data=key)
        assert signed_in.status_code == 303
        assert "secure" in signed_in.headers["set-cookie"].lower()


def test_a_balancer_that_sends_no_header_is_refused(tmp_path: Path) -> None:
    environment = {"CNS_TRUSTED_PROXIES": BALANCER, **PROXY}
    with running(tmp_path / "data", environment=environment) as service:
        port = int(service.url.rpartition(":")[2])
        with socket.create_connection((HOST, port), source_address=(BALANCER, 0)) as balancer:
            balancer.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
            with suppress(ConnectionResetError):
                assert balancer.recv(100) == b""
        with socket.create_connection((HOST, port), source_address=(BALANCER, 0)) as balancer:
            balancer.sendall(b"PROXY UNKNOWN\r\nGET /live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert balancer.recv(100).startswith(b"HTTP/1.1 200")
        with socket.create_connection((HOST, port)) as stranger:
            stranger.sendall(b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\nGET /live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert stranger.recv(100).startswith(b"HTTP/1.1 400")
        assert service.events("proxy_header.refused", peer=BALANCER)


def test_the_certificate_of_a_caller_passes_through(tmp_path: Path) -> None:
    callers = Authority(tmp_path, "callers")
    form = FORMS["haproxy-tls"]
    environment = {**form.environment, "CNS_CLIENT_CA": str(callers.file)}
    with placed(tmp_path, Form(form.program, form.file, environment, service_has_tls=True)) as place:
        sqs = place.client("sqs")
        queue = sqs.create_queue(QueueName="q")["QueueUrl"]
        policy = {"Version": "2012-10-17", "Statement": [deny(Null={"cns:ClientCertificateSubject": "true"})]}
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(policy)})
        with pytest.raises(ClientError, match="AccessDenied"):
            sqs.send_message(QueueUrl=queue, MessageBody="x")
        context = ssl.create_default_context(cafile=str(place.ca_file))
        context.load_cert_chain(*callers.issue_server("caller"))
        keys = (place.service.environment["AWS_ACCESS_KEY_ID"], place.service.environment["AWS_SECRET_ACCESS_KEY"])
        url = f"{place.url}/api/v1/accounts/{queue.split('/')[3]}/queues/q/messages"
        sent = httpx.post(url, params={"region": REGION}, json={"body": "x"}, auth=keys, verify=context)
        assert sent.status_code == 201
