"""Names in metrics and health are seen by the address for administration and holders of a token, never a stranger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cns_backend.metrics_token import tokens
from cns_common.configuration.settings import Settings
from lab.harness import commands
from lab.harness.ports import free_port
from lab.harness.processes import METRICS_TOKEN, plain_environment
from lab.harness.running import Up, running

PAGES = ("/metrics", "/health", "/ready")
QUEUE = "takeover-of-acme"


@pytest.fixture(scope="module")
def admin() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, admin: str) -> Iterator[Up]:
    data = tmp_path_factory.mktemp("names") / "data"
    with running(data, environment={"CNS_ADMIN_BIND": admin}) as started:
        sqs = started.client("sqs")
        sqs.send_message(QueueUrl=sqs.create_queue(QueueName=QUEUE)["QueueUrl"], MessageBody="x")
        yield started


@pytest.mark.extended
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong-token-of-a-stranger"},
        {"authorization": "Bearer"},
        {"authorization": f"Basic {METRICS_TOKEN}"},
        {"authorization": "Bearer \xff"},
        {"host": "ADMIN"},
        {"x-forwarded-for": "127.0.0.1", "x-forwarded-host": "ADMIN", "x-forwarded-port": "ADMIN"},
    ],
)
def test_a_stranger_sees_no_names(service: Up, admin: str, headers: dict[str, str]) -> None:
    sent = [(name.encode(), value.replace("ADMIN", admin).encode("latin-1")) for name, value in headers.items()]
    answers = [httpx.get(service.url + page, headers=sent) for page in PAGES]
    assert [answer.status_code for answer in answers] == [401, 200, 200]
    assert answers[0].headers["www-authenticate"].startswith("Bearer")
    assert answers[0].text.count("\n") == 1
    assert [answer.json() for answer in answers[1:]] == [{"status": "green", "ready": True}] * 2


@pytest.mark.parametrize("by", ["setting", "master key", "admin address"])
def test_holders_of_a_token_see_all(service: Up, admin: str, by: str) -> None:
    url = f"http://{admin}" if by == "admin address" else service.url
    settings = Settings(data=service.data, metrics_token=METRICS_TOKEN)
    token = dict(zip(["setting", "master key"], tokens(settings), strict=True)).get(by)
    headers = {"authorization": f"bearer {token}"} if token else {}
    metrics, *reports = [httpx.get(url + page, headers=headers) for page in PAGES]
    assert f":{QUEUE}" in metrics.text
    assert all(report.json()["processes"] and report.json()["workers"] for report in reports)


def test_commands_carry_the_token_to_their_own_service_only(service: Up, tmp_path: Path) -> None:
    elsewhere = ("--url", service.url, "--data", tmp_path / "none")
    told = commands.run("status", *elsewhere, environment=plain_environment()).stdout
    assert "version" in told and "pid" in told  # by CNS_METRICS_TOKEN
    blind = {name: value for name, value in plain_environment().items() if name != "CNS_METRICS_TOKEN"}
    own = commands.run("status", "--data", service.data, environment=blind).stdout
    assert "version" in own and "pid" in own  # by the master key
    done = commands.run("status", *elsewhere, environment=blind)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"service     {service.url}, embedded form, green")
    assert "CNS_METRICS_TOKEN" in done.stderr and done.stderr.count("\n") == 1
    done = commands.run("top", "--once", *elsewhere, environment=blind)
    assert done.returncode == 69 and "CNS_METRICS_TOKEN" in done.stderr
    done = commands.run("doctor", *elsewhere, environment=blind)
    assert f"{service.url} answers, but no details without its token → set CNS_METRICS_TOKEN" in done.stdout
