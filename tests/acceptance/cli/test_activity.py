"""The log of administrative acts: over the AWS protocols, the REST API, the pages and commands; who may read it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from cns.client import ApiError, Client, Credentials
from lab.harness.endpoints import Endpoint
from lab.harness.processes import keys_in
from lab.harness.running import Up, running
from lab.harness.service import REGION
from tests.acceptance.pages.person import Person
from tests.acceptance.topics import Topic

SECRET_VALUE = f"value-{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A service of its own: it has few acts."""
    with running(tmp_path_factory.mktemp("audit") / "data") as started:
        yield started


@pytest.fixture
def browser(service: Up) -> Iterator[Person]:
    with httpx.Client(base_url=service.url, follow_redirects=True) as http:
        yield Person(http)


@pytest.fixture
def acts(service: Up) -> Callable[..., list[dict[str, Any]]]:
    """The lines of `cns activity --json`."""

    def read(*words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in service.cns("activity", "--json", *words).stdout.splitlines()]

    return read


def test_acts_of_every_face_are_recorded_once(
    service: Up, browser: Person, acts: Callable[..., list[dict[str, Any]]], endpoint: Endpoint
) -> None:
    keys = service.environment
    key_id, secret = keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"]
    sqs, sns = (service.client(name, region_name=REGION) for name in ("sqs", "sns"))
    account = service.client("sts").get_caller_identity()["Account"]

    url = sqs.create_queue(QueueName="audited-aws")["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "7"})
    sqs.send_message(QueueUrl=url, MessageBody=SECRET_VALUE)
    sqs.receive_message(QueueUrl=url)
    topic = Topic(sns, sns.create_topic(Name="audited")["TopicArn"])
    arn = topic.subscribe("http", endpoint.url)
    topic.set("DisplayName", SECRET_VALUE)
    topic.publish(SECRET_VALUE)
    with pytest.raises(sns.exceptions.InvalidParameterException):
        sns.set_topic_attributes(TopicArn=topic.arn, AttributeName="Policy", AttributeValue="{")

    rest = f"{service.url}/api/v1/accounts/{account}"
    httpx.delete(f"{rest}/queues/audited-aws/messages/all", auth=(key_id, secret), params={"region": REGION})
    link = httpx.post(
        f"{rest}/topics/audited/subscriptions/{arn.rpartition(':')[2]}/portal-links",
        json={},
        auth=(key_id, secret),
        params={"region": REGION},
    ).json()["url"]

    assert browser.sign_in(key_id=key_id, secret="wrong", region=REGION).status_code == 401
    browser.sign_in(key_id=key_id, secret=secret, region=REGION)
    browser.post("/ui/queues/audited-aws/delete", sure="yes")
    browser.http.get(link)
    page = browser.http.get("/portal/").text
    form = {"form_token": page.partition('name="form_token" value="')[2].partition('"')[0]}
    browser.http.post("/portal/pause", data=form)
    browser.http.post("/portal/secret", data=form)  # the subscription has no secret so far
    browser.http.post("/portal/secret/rotate", data={**form, "number": "0"})
    assert "whsec_" in browser.http.post("/portal/secret", data=form).text

    made = keys_in(service.cns("account", "user", "add", account, "auditor").stdout)
    operator = service.cns("operator", "token").stdout.strip()
    assert service.cns("pool", "resize", "nonsense", "2", check=False).returncode == 2

    found = [(one["via"], one["action"], one["result"]) for one in acts("-n", "1000")]
    for expected in (
        ("command", "cns:CreateAccount", "ok"),
        ("aws", "sqs:CreateQueue", "ok"),
        ("aws", "sqs:SetQueueAttributes", "ok"),
        ("aws", "sns:CreateTopic", "ok"),
        ("aws", "sns:Subscribe", "ok"),
        ("aws", "sns:ConfirmSubscription", "ok"),
        ("aws", "sns:SetTopicAttributes", "ok"),
        ("aws", "sns:SetTopicAttributes", "InvalidParameter"),
        ("rest", "sqs:PurgeQueue", "ok"),
        ("rest", "cns:CreatePortalLink", "ok"),
        ("pages", "cns:SignIn", "InvalidClientTokenId"),
        ("pages", "cns:SignIn", "ok"),
        ("pages", "sqs:DeleteQueue", "ok"),
        ("portal", "cns:PauseDeliveries", "ok"),
        ("portal", "cns:RotateWebhookSecret", "ok"),
        ("portal", "cns:RevealWebhookSecret", "ok"),
        ("command", "cns:AddUser", "ok"),
        ("command", "cns:MakeOperatorToken", "ok"),
        ("command", "cns:ResizePool", "Refused"),
    ):
        assert found.count(expected) == 1, (expected, found)
    assert not {action for _, action, _ in found} & {"sqs:SendMessage", "sqs:ReceiveMessage", "sns:Publish"}

    (deleted,) = acts("--action", "DeleteQueue")
    assert (deleted["account"], deleted["keyId"], deleted["address"]) == (account, key_id, "127.0.0.1")
    assert deleted["principal"] == f"arn:aws:iam::{account}:root" and deleted["requestId"]
    (added,) = acts("--action", "AddUser")
    assert (added["target"], added["detail"]) == (account, f"account {account}, user auditor, key {made['key']}")
    assert [one["action"] for one in acts("--failed", "--action", "Sign")] == ["cns:SignIn"]
    line = service.cns("activity", "--since", "1h", "--action", "PurgeQueue").stdout
    assert f" by arn:aws:iam::{account}:root from 127.0.0.1 via rest: ok" in line

    written = b"".join([path.read_bytes() for path in service.inside(service.data / "acts").rglob("*.jsonl*")])
    for hidden in (secret, made["secret"], operator, SECRET_VALUE, httpx.URL(link).params["link"], "wrong", "whsec_"):
        assert hidden.encode() not in written


def test_only_operators_read_it(service: Up, browser: Person) -> None:
    keys = service.environment
    pair = (keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"])
    service.client("sqs", region_name=REGION).create_queue(QueueName="seen-by-operators")
    assert httpx.get(f"{service.url}/api/v1/acts", auth=pair).status_code == 403
    assert httpx.get(f"{service.url}/api/v1/acts").status_code == 401
    browser.sign_in(key_id=pair[0], secret=pair[1], region=REGION)
    assert browser.http.get("/ui/acts").status_code == 403
    token = service.cns("operator", "token").stdout.strip()
    asked = {"action": "createqueue", "target": "seen-by"}
    answer = httpx.get(f"{service.url}/api/v1/acts", headers={"authorization": f"Bearer {token}"}, params=asked)
    assert [(one["action"], one["target"], one["via"]) for one in answer.json()["acts"]] == [
        ("sqs:CreateQueue", "seen-by-operators", "aws")
    ]
    refused = httpx.get(f"{service.url}/api/v1/acts?limit=0", headers={"authorization": f"Bearer {token}"})
    assert refused.status_code == 400
    browser.sign_in(operator_token=token)
    assert "seen-by-operators" in browser.http.get("/ui/acts", params=asked).text


def test_refusals_by_a_grant_are_recorded(
    service: Up, acts: Callable[..., list[dict[str, Any]]], endpoint: Endpoint
) -> None:
    keys = service.environment
    account = service.client("sts").get_caller_identity()["Account"]
    root = Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])
    sns = service.client("sns", region_name=REGION)
    arn = Topic(sns, sns.create_topic(Name="granted")["TopicArn"]).subscribe("http", endpoint.url)
    with Client(service.url, account, root, region=REGION) as holder:
        holder.create_queue("granted")
        token = holder.create_permission(["PutMessage"], queue="granted").token
    with Client(service.url, account, Credentials(token=token), region=REGION) as sender:
        for refused in (
            lambda: sender.purge_queue("granted"),
            lambda: sender.create_portal_link(arn),
            lambda: sender.revoke_portal_link(arn, "0" * 32),
            lambda: sender.next_message("granted"),
        ):
            with pytest.raises(ApiError, match="403"):
                refused()
        sender.put_message("granted", "m")
    with Client(service.url, "222222222222", root, region=REGION) as stranger, pytest.raises(ApiError, match="403"):
        stranger.create_queue("not-mine")
    refusals = [one for one in acts("--failed", "-n", "1000") if one["via"] == "rest"]
    assert sorted((one["action"], one["target"].rpartition("/")[2], one["result"]) for one in refusals) == [
        ("cns:CreatePortalLink", arn, "AccessDenied"),
        ("cns:RevokePortalLink", arn, "AccessDenied"),
        ("sqs:CreateQueue", "not-mine", "AccessDenied"),
        ("sqs:PurgeQueue", "granted", "AccessDenied"),
    ]
    assert {one["account"] for one in refusals} == {account}


def test_anonymous_callers_cannot_push_acts_out(service: Up, acts: Callable[..., list[dict[str, Any]]]) -> None:
    arn = f"arn:aws:sns:{REGION}:111111111111:flood:{uuid.uuid4()}"
    sns = service.client("sns", region_name=REGION)
    topic = Topic(sns, sns.create_topic(Name="flooded")["TopicArn"])
    calls = [
        {"Action": "Unsubscribe", "SubscriptionArn": arn},  # no such subscription: succeeds and changes nothing
        {"Action": "Unsubscribe", "SubscriptionArn": "x" * 2_000},
        {"Action": "ConfirmSubscription", "TopicArn": topic.arn, "Token": "guess"},
    ]
    with httpx.Client() as http:
        answers = [http.get(service.url, params=calls[n % 3]).status_code for n in range(150)]
    assert answers == [200, 400, 400] * 50
    anonymous = [one for one in acts("-n", "1000") if not one["account"] and one["via"] == "aws"]
    flood = [one for one in anonymous if (one["action"], one["result"]) != ("sns:ConfirmSubscription", "ok")]
    assert 0 < len(flood) < len(answers) / 2, "a burst is recorded, then one a minute"


def test_usage(service: Up) -> None:
    assert service.cns("activity", "--since", "yesterday", check=False).returncode == 2
    empty = service.cns("activity", "--action", "NoSuchAct")
    assert (empty.stdout, empty.returncode) == ("", 0) and "no such act" in empty.stderr


def test_acts_that_change_nothing_are_recorded_apart(service: Up) -> None:
    sqs, sns = (service.client(name, region_name=REGION) for name in ("sqs", "sns"))
    account = service.client("sts").get_caller_identity()["Account"]
    for _ in range(2):
        url = sqs.create_queue(QueueName="twice")["QueueUrl"]
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "7"})
        sqs.tag_queue(QueueUrl=url, Tags={"team": "a"})
        arn = sns.create_topic(Name="twice")["TopicArn"]
        sns.set_topic_attributes(TopicArn=arn, AttributeName="DisplayName", AttributeValue="t")
        sns.tag_resource(ResourceArn=arn, Tags=[{"Key": "team", "Value": "a"}])
        queue = f"arn:aws:sqs:{REGION}:{account}:twice"
        made = sns.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue)["SubscriptionArn"]
        sns.set_subscription_attributes(SubscriptionArn=made, AttributeName="RawMessageDelivery", AttributeValue="true")
    for _ in range(2):
        sns.untag_resource(ResourceArn=arn, TagKeys=["team"])
        sqs.untag_queue(QueueUrl=url, TagKeys=["team"])
    for _ in range(2):
        sns.delete_topic(TopicArn=arn)
    actions = [
        *("sqs:CreateQueue", "sqs:SetQueueAttributes", "sqs:TagQueue", "sns:CreateTopic", "sns:SetTopicAttributes"),
        *("sns:TagResource", "sns:Subscribe", "sns:SetSubscriptionAttributes"),
        *("sns:UntagResource", "sqs:UntagQueue", "sns:DeleteTopic"),
    ]
    directory = service.inside(service.data / "acts")
    paths = sorted(directory.rglob("*.jsonl*"))
    for failed in (False, True):
        here = [path for path in paths if ("failed" in path.relative_to(directory).parts) == failed]
        lines = [line for path in here for line in path.read_text().splitlines()]
        found = [act for act in map(json.loads, lines) if "twice" in act.get("target", "")]
        assert [(act["action"], act["result"]) for act in found] == [(action, "ok") for action in actions]
        assert [act.get("unchanged", False) for act in found] == [failed] * len(actions)
    shown = service.cns("activity", "--action", "SetQueueAttributes", "--target", "twice").stdout.splitlines()
    assert [line.endswith(": ok, nothing changed") for line in shown] == [False, True]
