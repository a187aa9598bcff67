"""An account is deleted with all that it has: over REST and by command, and again after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest
from botocore.exceptions import ClientError

from cns.client import Client, Credentials
from lab.harness.processes import keys_in
from lab.harness.service import REGION, Service
from tests.acceptance.rest.refusals import refusal_of

OTHER_REGION = "us-east-2"
PASSWORD = "a password of an owner"
QUEUES = 103
"""More than one request deletes."""


@dataclass(frozen=True, slots=True)
class AccountToDelete:
    """An account with a few of everything, and a subscription to a topic of another account."""

    account: str
    keys: dict[str, str]
    user: dict[str, str]
    subscription: str

    def key_ids(self) -> set[str]:
        return {self.keys["key"], self.user["key"]}


@pytest.fixture
def doomed(service: Service, new_name: Callable[[], str]) -> AccountToDelete:
    keys = keys_in(service.cns("account", "create").stdout)
    account = service.client("sts", **keys).get_caller_identity()["Account"]
    user = keys_in(service.cns("account", "user", "add", account, "alice").stdout)
    theirs = service.client("sns", **keys)
    topic = theirs.create_topic(Name=new_name())["TopicArn"]
    queue = service.client("sqs", **keys).create_queue(QueueName=new_name())["QueueUrl"]
    arn = f"arn:aws:sqs:{REGION}:{account}:{queue.rpartition('/')[2]}"
    theirs.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    attributes = {"PlatformCredential": "c", "PlatformPrincipal": "p"}
    theirs.create_platform_application(Name=new_name(), Platform="GCM", Attributes=attributes)
    service.client("sqs", region_name=OTHER_REGION, **keys).create_queue(QueueName=new_name())
    archived = {"FifoTopic": "true", "ArchivePolicy": '{"MessageRetentionPeriod":"1"}'}
    theirs.create_topic(Name=f"{new_name()}.fifo", Attributes=archived)
    own = service.client("sns")
    public = own.create_topic(Name=new_name())["TopicArn"]
    own.add_permission(TopicArn=public, Label="all", AWSAccountId=[account], ActionName=["Subscribe"])
    subscription = theirs.subscribe(TopicArn=public, Protocol="sqs", Endpoint=arn)["SubscriptionArn"]
    return AccountToDelete(account, keys, user, subscription)


@pytest.fixture
def operator(service: Service) -> Iterator[httpx.Client]:
    token = service.cns("operator", "token").stdout.strip()
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{service.url}/api/v1", headers=headers) as client:
        yield client


def key_refusal(service: Service, keys: dict[str, str]) -> str:
    with pytest.raises(ClientError) as refusal:
        service.client("sts", **keys).get_caller_identity()
    return str(refusal.value.response["Error"]["Code"])


def check_gone(service: Service, doomed: AccountToDelete) -> None:
    for keys in (doomed.keys, doomed.user):
        assert key_refusal(service, keys) == "InvalidClientTokenId"
    assert doomed.account not in service.cns("account", "list").stdout
    topic = doomed.subscription.rpartition(":")[0]
    assert not service.client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]


def test_an_account_with_all_that_it_has(service: Service, operator: httpx.Client, doomed: AccountToDelete) -> None:
    operator.patch(f"/accounts/{doomed.account}", json={"password": PASSWORD}).raise_for_status()
    with httpx.Client(base_url=service.url) as owner:
        owner.post("/ui/sign-in", data={"account": doomed.account, "password": PASSWORD})
        assert owner.get("/ui/queues").status_code == 200
        done = operator.delete(f"/accounts/{doomed.account}")
        assert done.status_code == 202
        assert key_refusal(service, doomed.keys) == "InvalidClientTokenId", "before all is deleted"
        assert owner.get("/ui/queues").headers["location"] == "/ui/sign-in?next=%2Fui%2Fqueues", "before all is deleted"
    first = done.json()
    assert (first["users"], first["queues"], first["topics"], first["applications"]) == (1, 2, 2, 1)
    while done.status_code == 202:
        done = operator.delete(f"/accounts/{doomed.account}")
    assert (done.status_code, done.json()["complete"]) == (200, True)
    check_gone(service, doomed)
    assert operator.delete(f"/accounts/{doomed.account}").json()["code"] == "NoSuchAccount"
    assert operator.get(f"/debug/accounts/{doomed.account}/queues").json()["queues"] == []


@pytest.mark.extended
def test_by_command_after_a_half_done_request(
    service: Service, operator: httpx.Client, doomed: AccountToDelete, new_name: Callable[[], str]
) -> None:
    sqs, prefix = service.client("sqs", **doomed.keys), new_name()
    for n in range(QUEUES):
        sqs.create_queue(QueueName=f"{prefix}-{n}")
    assert operator.delete(f"/accounts/{doomed.account}").json()["queues"] == 100
    said = service.cns("account", "delete", doomed.account, "--yes").stdout
    assert f"deleted account {doomed.account}: 0 users, {QUEUES + 2 - 100} queues" in said
    check_gone(service, doomed)
    again = service.cns("account", "delete", doomed.account, "--yes", check=False)
    assert (again.returncode, again.stderr.strip()) == (1, f"cns: there is no account {doomed.account}")


def test_who_may_not(service: Service, operator: httpx.Client, rest: Client, stranger: dict[str, str]) -> None:
    with Client(service.url, rest.account, Credentials(key_id=stranger["key"], secret=stranger["secret"])) as other:
        for client in (rest, other):
            assert refusal_of(client.delete_account) == (403, "AccessDenied")
    assert operator.delete("/accounts/cns").status_code == 400
    own = service.cns("account", "delete", "cns", "--yes", check=False)
    assert (own.returncode, own.stderr.strip()) == (1, "cns: the service's own account cannot be deleted")
    assert rest.list_queues() is not None


def test_it_asks_first(service: Service, doomed: AccountToDelete) -> None:
    assert service.cns("account", "delete", doomed.account, check=False).returncode == 1
    assert service.client("sts", **doomed.keys).get_caller_identity()["Account"] == doomed.account
