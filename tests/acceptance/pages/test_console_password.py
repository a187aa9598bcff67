"""The account object: owner's name, console password, secret key, list of queues; signing in with the password."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from lab.harness import commands
from lab.harness.processes import keys_in
from lab.harness.running import Up, running
from lab.harness.service import REGION
from lab.harness.waiting import wait_until
from tests.acceptance.pages.person import Person

PASSWORD, OTHER = "correct horse battery", "another horse battery"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A service of its own: attempts that fail are limited by address."""
    with running(tmp_path_factory.mktemp("console") / "data") as started:
        yield started


@pytest.fixture
def browser(own: Up) -> Iterator[Callable[[], Person]]:
    with ExitStack() as browsers:
        yield lambda: Person(browsers.enter_context(httpx.Client(base_url=own.url, follow_redirects=True)))


def set_password(data: Path, account: str, password: str) -> None:
    done = commands.run("account", "password", account, "--data", data, stdin=f"{password}\n")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def portal_link(own: Up, keys: dict[str, str], person: Person) -> str:
    """A link to a subscription's portal that the person makes on the pages."""
    sqs, sns = (own.client(name, region_name=REGION, **keys) for name in ("sqs", "sns"))
    queue = sqs.create_queue(QueueName="owned")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = sns.create_topic(Name="owned")["TopicArn"]
    subscription = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)["SubscriptionArn"].rpartition(":")[2]
    page = person.post(f"/ui/topics/owned/subscriptions/{subscription}/portal-links", days="7").text
    found = re.search(r"<code>(http[^<]+/portal[^<]+)</code>", page)
    assert found is not None, page
    return html.unescape(found[1])


def shown(own: Up, account: str) -> dict[str, Any]:
    return dict(json.loads(own.cns("account", "show", account, "--json").stdout))


def test_an_account_with_name_password_key_and_queues(own: Up, browser: Callable[[], Person]) -> None:
    keys = keys_in(own.cns("account", "create").stdout)
    sqs = own.client("sqs", region_name=REGION, **keys)
    account = own.client("sts", **keys).get_caller_identity()["Account"]
    assert (shown(own, account)["name"], shown(own, account)["hasPassword"]) == ("", False)
    own.cns("account", "name", account, "Ada Lovelace")
    set_password(own.data, account, PASSWORD)
    found = shown(own, account)
    assert (found["name"], found["hasPassword"], found["keyIds"]) == ("Ada Lovelace", True, [keys["key"]])
    assert "Ada Lovelace  yes" in own.cns("account", "list").stdout

    for queue in ("orders", "invoices"):
        sqs.create_queue(QueueName=queue)
    root = (keys["key"], keys["secret"])
    rest = f"{own.url}/api/v1/accounts/{account}"
    assert httpx.get(rest, auth=root).json()["name"] == "Ada Lovelace"
    assert sorted(httpx.get(f"{rest}/queues", auth=root, params={"region": REGION}).json()["queues"]) == [
        "invoices",
        "orders",
    ]
    for name in (account, "ada lovelace"):
        someone = browser()
        page = someone.sign_in(account=name, password=PASSWORD, region=REGION)
        assert page.url.path == "/ui/queues" and "orders" in page.text and "invoices" in page.text
        someone.post("/ui/queues", name=f"made-by-{len(name)}")
    assert any("made-by-12" in url for url in sqs.list_queues()["QueueUrls"])

    acts = [json.loads(line) for line in own.cns("activity", "--json", "-n", "1000").stdout.splitlines()]
    kinds = [(act["action"], act["detail"], act["via"], act["result"]) for act in acts]
    assert ("cns:ChangeOwner", "password set", "command", "ok") in kinds
    assert ("cns:ChangeOwner", "name Ada Lovelace", "command", "ok") in kinds
    signed_in = [act for act in acts if act["action"] == "cns:SignIn" and act["account"] == account]
    assert [act["keyId"][:19] for act in signed_in] == [f"CONSOLE{account}"] * 2
    for file in own.data.rglob("*"):
        if file.is_file() and file.suffix in (".jsonl", ".open", ".db", ".db-wal"):
            assert PASSWORD.encode() not in file.read_bytes()
            assert b"scrypt$" not in file.read_bytes(), "the hash is sealed"


@pytest.mark.extended
def test_a_change_ends_the_sessions(own: Up, browser: Callable[[], Person]) -> None:
    keys = keys_in(own.cns("account", "create").stdout)
    account = own.client("sts", **keys).get_caller_identity()["Account"]
    root = (keys["key"], keys["secret"])
    rest = f"{own.url}/api/v1/accounts/{account}"
    assert httpx.patch(rest, auth=root, json={"name": "Grace", "password": PASSWORD}).status_code == 204
    former, by_key = browser(), browser()
    assert former.sign_in(account="Grace", password=PASSWORD, region=REGION).url.path == "/ui/queues"
    link = portal_link(own, keys, former)
    assert httpx.get(link, follow_redirects=True).status_code == 200
    by_key.sign_in(key_id=keys["key"], secret=keys["secret"])
    set_password(own.data, account, OTHER)
    wait_until(lambda: former.http.get("/ui/queues").url.path == "/ui/sign-in")
    assert by_key.http.get("/ui/queues").url.path == "/ui/queues", "a session of a key goes on"
    assert httpx.get(link, follow_redirects=True).status_code == 403, "what was made in the session ends, too"
    assert former.sign_in(account="Grace", password=PASSWORD).status_code == 401
    assert former.sign_in(account="Grace", password=OTHER).url.path == "/ui/queues"
    assert httpx.patch(rest, auth=root, json={"password": ""}).status_code == 204
    wait_until(lambda: former.http.get("/ui/queues").url.path == "/ui/sign-in")
    assert former.sign_in(account="Grace", password=OTHER).status_code == 401


@pytest.mark.extended
def test_attempts_that_fail_are_limited_and_tell_nothing(own: Up, browser: Callable[[], Person]) -> None:
    keys = keys_in(own.cns("account", "create").stdout)
    account = own.client("sts", **keys).get_caller_identity()["Account"]
    set_password(own.data, account, PASSWORD)
    someone = browser()
    known = [someone.sign_in(account=account, password="wrong") for _ in range(6)]
    unknown = [someone.sign_in(account="999999999999", password="wrong") for _ in range(6)]
    assert [answer.status_code for answer in known] == [401] * 5 + [429]
    assert [answer.status_code for answer in unknown] == [401] * 5 + [429]
    assert known[0].text.replace(account, "999999999999") == unknown[0].text
    assert someone.sign_in(account=account, password=PASSWORD).status_code == 429
    failed = [
        json.loads(line) for line in own.cns("activity", "--json", "--failed", "--action", "SignIn").stdout.splitlines()
    ]
    assert {(act["target"], act["result"]) for act in failed} >= {
        (account, "InvalidPassword"),
        (account, "TooManyAttempts"),
    }


@pytest.mark.parametrize("given", ["short\n", "", "x" * 300 + "\n", "tab\ttab\ttab\ttab\n"])
def test_passwords_that_are_refused(own: Up, given: str) -> None:
    account = json.loads(own.cns("account", "list", "--json").stdout.splitlines()[0])["account"]
    done = commands.run("account", "password", account, "--data", own.data, stdin=given)
    assert done.returncode == 1 and done.stderr.startswith("cns: A password has "), done.stderr


@pytest.mark.extended
def test_only_root_and_operators_change_an_owner(own: Up) -> None:
    first, second = (keys_in(own.cns("account", "create").stdout) for _ in range(2))
    account = own.client("sts", **first).get_caller_identity()["Account"]
    path = f"{own.url}/api/v1/accounts/{account}"
    body = {"password": PASSWORD}
    assert httpx.patch(path, json=body).status_code == 401
    for change in (body, {}):
        assert httpx.patch(path, json=change, auth=(second["key"], second["secret"])).status_code == 403
    assert shown(own, account)["hasPassword"] is False
    short = httpx.patch(path, json={"name": "Not set", "password": "short"}, auth=(first["key"], first["secret"]))
    assert (short.status_code, shown(own, account)["name"]) == (400, "")
    token = {"authorization": f"Bearer {own.cns('operator', 'token').stdout.strip()}"}
    assert httpx.patch(path, json=body, headers=token).status_code == 204
    assert shown(own, account)["hasPassword"] is True
    missing = commands.run("account", "password", "999999999999", "--data", own.data, stdin=f"{PASSWORD}\n")
    assert (missing.returncode, missing.stderr) == (1, "cns: there is no account 999999999999\n")
