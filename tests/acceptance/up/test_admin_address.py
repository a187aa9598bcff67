"""`CNS_ADMIN_BIND`: administration has an address of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest

from lab.harness.ports import free_port
from lab.harness.processes import BIN, plain_environment
from lab.harness.running import running
from lab.harness.waiting import PATIENCE_S, wait_until
from tests.acceptance.topics import Topic, arn_of
from tests.marks import extended


def test_pages_and_operators_are_served_there_only(tmp_path: Path) -> None:
    admin = f"127.0.0.1:{free_port()}"
    with running(tmp_path / "data", environment={"CNS_ADMIN_BIND": admin}) as service:
        token = service.cns("operator", "token").stdout.strip()
        operator = {"authorization": f"Bearer {token}"}
        keys = (service.environment["AWS_ACCESS_KEY_ID"], service.environment["AWS_SECRET_ACCESS_KEY"])
        statuses = {}
        for name, url in (("service", service.url), ("admin", f"http://{admin}")):
            statuses[name] = [
                httpx.get(f"{url}/ui/sign-in").status_code,
                httpx.get(f"{url}/ADMIN").status_code,
                httpx.get(f"{url}/api/v1/accounts", headers=operator).status_code,
                httpx.get(f"{url}/api/v1/accounts", headers={**operator, "host": admin}).status_code,
                httpx.get(f"{url}/api/v1/caller", auth=keys).status_code,
            ]
        assert statuses == {"service": [404, 404, 403, 403, 200], "admin": [200, 303, 200, 200, 200]}
        page = httpx.get(service.url, headers={"accept": "text/html"}).text
        assert "/ui" not in page, "no link to what is not there"


@pytest.mark.extended
def test_portal_links_name_the_service_and_end_with_the_key(tmp_path: Path) -> None:
    admin = f"127.0.0.1:{free_port()}"
    with running(tmp_path / "data", environment={"CNS_ADMIN_BIND": admin}) as service:
        topic = Topic(service.client("sns"), service.client("sns").create_topic(Name="t")["TopicArn"])
        queue = service.client("sqs").create_queue(QueueName="q")["QueueUrl"]
        arn = topic.subscribe("sqs", arn_of(service.client("sqs"), queue))
        keys = (service.environment["AWS_ACCESS_KEY_ID"], service.environment["AWS_SECRET_ACCESS_KEY"])
        _, _, _, region, account, name, subscription = arn.split(":")
        path = f"/api/v1/accounts/{account}/topics/{name}/subscriptions/{subscription}/portal-links"
        for url in (f"http://{admin}", service.url):
            made = httpx.post(url + path, params={"region": region}, json={}, auth=keys).json()
            opened = httpx.get(made["url"])
            assert opened.status_code == 303
            assert opened.url.port == httpx.URL(service.url).port
        home, cookies = f"{service.url}/portal/", dict(opened.cookies)
        assert httpx.get(home, cookies=cookies).status_code == 200
        service.cns("account", "rotate", account)
        wait_until(lambda: httpx.get(made["url"]).status_code == 403)
        assert httpx.get(home, cookies=cookies).status_code == 403, "the visit ends, too"


@pytest.mark.parametrize(
    "bind", ["8081", "127.0.0.1:6059", *extended("localhost", "127.0.0.1:0", "127.0.0.1:99999", "a b:1")]
)
def test_bad_addresses(tmp_path: Path, bind: str) -> None:
    done = subprocess.run(
        [BIN / "cns", "up", "--data", tmp_path / "data"],
        env=plain_environment() | {"CNS_ADMIN_BIND": bind},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 71, done.stderr
    assert "CNS_ADMIN_BIND" in done.stderr
    assert "Traceback" not in done.stderr
