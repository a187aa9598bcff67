"""Tokens, signed URLs, AWS signatures and operators: what each may do, and when it ends."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as AwsCredentials

from cns.client import ApiError, Client, Credentials
from lab.harness.service import REGION, Service
from lab.harness.waiting import wait_until

Connect = Callable[[Credentials], Client]


@pytest.fixture
def operator(service: Service) -> Iterator[httpx.Client]:
    token = service.cns("operator", "token", "--life", "1h").stdout.strip()
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{service.url}/api/v1", headers=headers) as client:
        yield client


@pytest.fixture
def act(connect: Connect) -> Callable[[str], Client]:
    """Makes a client with a token."""
    return lambda token: connect(Credentials(token=token))


def refused(work: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ApiError) as refusal:
        work()
    return refusal.value.status, refusal.value.code


def test_a_token_allows_its_levels_on_its_queue_only(
    rest: Client, act: Callable[[str], Client], queue_name: str, new_name: Callable[[], str]
) -> None:
    other = rest.create_queue(new_name()).name
    sender = act(rest.create_permission(["PutMessage"], queue=queue_name).token)
    sender.put_message(queue_name, "m")
    denied = (403, "AccessDenied")
    assert refused(lambda: sender.next_message(queue_name)) == denied
    assert refused(lambda: sender.put_message(other, "m")) == denied
    assert refused(lambda: sender.delete_queue(queue_name)) == denied
    assert refused(lambda: sender.list_queues()) == denied
    assert refused(lambda: sender.browse_messages(queue_name)) == denied
    assert refused(lambda: sender.create_permission(["PutMessage"], queue=queue_name)) == denied
    reader = act(rest.create_permission(["ReadMessage", "AckMessage"], queue=queue_name).token)
    message = reader.next_message(queue_name)
    assert message is not None
    assert refused(lambda: reader.update_message(queue_name, message.pop_receipt, text="x")) == denied
    reader.acknowledge_message(queue_name, message.pop_receipt)


def test_a_token_gives_no_more_than_it_has(rest: Client, act: Callable[[str], Client], queue_name: str) -> None:
    giver = act(rest.create_permission(["PutMessage", "GrantPermission"], queue=queue_name).token)
    assert refused(lambda: giver.create_permission([], queue=queue_name)) == (403, "AccessDenied")
    assert refused(lambda: giver.create_permission(["ReadMessage"], queue=queue_name)) == (403, "AccessDenied")
    assert refused(lambda: giver.create_permission(["PutMessage"])) == (403, "AccessDenied")
    given = giver.create_permission(["PutMessage"], queue=queue_name, life_seconds=99_999)
    assert given.expires_at <= rest.create_permission(["PutMessage"]).expires_at
    act(given.token).put_message(queue_name, "m")


def test_a_signed_url_needs_no_other_credentials(service: Service, rest: Client, account: str, queue_name: str) -> None:
    query = rest.create_permission(["PutMessage"], queue=queue_name).query_string
    url = f"{service.url}/api/v1/accounts/{account}/queues/{queue_name}/messages"
    assert httpx.post(f"{url}?{query}", json={"body": "m"}).status_code == 201
    assert httpx.post(url, json={"body": "m"}).status_code == 401
    with Client(service.url, account, Credentials(query=query)) as client:
        assert client.put_message(queue_name, "m").message_id


def test_tokens_end_with_the_key_that_signed_them(
    http: httpx.Client, account: str, rest: Client, connect: Connect, queue_name: str, new_name: Callable[[], str]
) -> None:
    users = f"/accounts/{account}/users"
    key = http.post(users, json={"name": new_name()}).json()
    user = connect(Credentials(key_id=key["keyId"], secret=key["secret"]))
    statement = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sqs:*", "Resource": "*"}
    rest.change_queue(queue_name, {"Policy": json.dumps({"Statement": [statement]})})
    client = connect(Credentials(token=user.create_permission(["PutMessage"]).token))
    client.put_message(queue_name, "m")
    assert http.delete(f"{users}/{key['user']}/keys/{key['keyId']}").status_code == 204
    assert refused(lambda: client.put_message(queue_name, "m")) == (401, "InvalidToken")


def test_permissions_end_at_their_time(
    service: Service, rest: Client, act: Callable[[str], Client], new_name: Callable[[], str]
) -> None:
    """A queue's token, its signed URL, and a token of the whole account."""
    queue = rest.create_queue(new_name()).name
    given = rest.create_permission(["PutMessage"], queue=queue, life_seconds=100)
    whole = rest.create_permission(life_seconds=200)
    sender, owner = act(given.token), act(whole.token)
    url = f"{service.url}/api/v1/accounts/{rest.account}/queues/{queue}/messages?{given.query_string}"
    sender.put_message(queue, "in time")
    assert httpx.post(url, json={"body": "in time"}).status_code == 201
    service.advance(101)
    assert refused(lambda: sender.put_message(queue, "late")) == (401, "ExpiredToken")
    assert httpx.post(url, json={"body": "late"}).json()["code"] == "ExpiredToken"
    owner.put_message(queue, "in time")
    service.advance(100)
    assert refused(lambda: owner.put_message(queue, "late")) == (401, "ExpiredToken")
    assert rest.queue_statistics(queue).visible == 3


@pytest.mark.parametrize("token", ["x", "x.y", "e30.AAAA", "a" * 5_000, "operator.9999999999.AAAA", "operator.ä.b"])
def test_forged_tokens(nobody: httpx.Client, account: str, token: str) -> None:
    answer = nobody.get(f"/accounts/{account}/queues", headers={b"authorization": b"Bearer " + token.encode()})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_changed_grant_is_refused(rest: Client, act: Callable[[str], Client], queue_name: str) -> None:
    token = rest.create_permission(["PutMessage"], queue=queue_name).token
    content, _, mac = token.partition(".")
    changed = base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)).replace(b"PutMessage", b"AckMessage")
    forged = base64.urlsafe_b64encode(changed).rstrip(b"=").decode() + "." + mac
    assert refused(lambda: act(forged).delete_queue(queue_name)) == (401, "InvalidToken")


def test_wrong_secrets(connect: Connect, root: Credentials) -> None:
    for credentials in (Credentials(key_id=root.key_id, secret="wrong"), Credentials(key_id="AKIANONE", secret="x")):
        client = connect(credentials)
        assert refused(client.list_queues) == (401, "InvalidClientTokenId")


def test_aws_signatures(service: Service, account: str, queue_name: str) -> None:
    url = f"{service.url}/api/v1/accounts/{account}/queues/{queue_name}/messages"
    keys = service.environment
    request = AWSRequest("POST", url, data=b'{"body":"signed"}', headers={"content-type": "application/json"})
    SigV4Auth(AwsCredentials(keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"]), "sqs", REGION).add_auth(request)
    signed = dict(request.headers.items())
    assert httpx.post(url, content=b'{"body":"signed"}', headers=signed).status_code == 201
    forged = httpx.post(url, content=b'{"body":"forged"}', headers=signed)
    assert (forged.status_code, forged.json()["code"]) == (401, "SignatureDoesNotMatch")


def test_operators_administrate_accounts_and_nothing_else(
    operator: httpx.Client, http: httpx.Client, account: str, queue_name: str
) -> None:
    made = operator.post("/accounts")
    assert made.status_code == 201
    new = made.json()["account"]
    assert new in [one["account"] for one in operator.get("/accounts").json()["accounts"]]
    rotated = operator.post(f"/accounts/{new}/keys").json()
    assert operator.get(f"/accounts/{new}").json()["keyIds"] == [rotated["keyId"]]
    assert operator.get("/accounts/000000000000").status_code == 404
    assert operator.get(f"/accounts/{account}/queues/{queue_name}").status_code == 403
    assert http.get("/accounts").status_code == http.post("/accounts").status_code == 403
    assert http.get(f"/accounts/{new}").status_code == 403


def test_users_of_an_account(http: httpx.Client, account: str, new_name: Callable[[], str]) -> None:
    users, name = f"/accounts/{account}/users", new_name()
    first = http.post(users, json={"name": name}).json()
    assert http.post(users, json={"name": name}).status_code == 409
    second = http.post(f"{users}/{name}/keys").json()
    assert http.post(f"{users}/{name}/keys").status_code == 409
    assert http.patch(f"{users}/{name}/keys/{first['keyId']}", json={"active": False}).status_code == 204
    assert http.patch(f"{users}/{name}", json={"active": False}).status_code == 204
    (shown,) = [one for one in http.get(users).json()["users"] if one["name"] == name]
    assert shown["active"] is False
    assert {key["keyId"]: key["active"] for key in shown["keys"]} == {first["keyId"]: False, second["keyId"]: True}
    assert http.delete(f"{users}/{name}").status_code == 204
    assert http.delete(f"{users}/{name}").status_code == 404


def test_levels_are_listed(nobody: httpx.Client) -> None:
    levels = nobody.get("/permissions/supportedAuthorizationLevels").json()["levels"]
    assert {"ReadMessage", "PutMessage", "UpdateMessage", "AckMessage"} <= {level["name"] for level in levels}


def fill_dead_letters(service: Service, rest: Client, queue: str, dead: str, n: int) -> None:
    """Move `n` messages of a queue with `maxReceiveCount` 1 into its dead-letter queue. A redrive without a destination
    fails on messages that did not come from a queue."""
    for _ in range(n):
        rest.put_message(queue, "m")
    sqs = service.client("sqs")
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]

    def moved() -> bool:
        sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
        return rest.queue_statistics(dead).visible == n

    wait_until(moved, lambda: f"{rest.queue_statistics(dead)}")


def test_a_token_for_a_queue_redrives_from_it_only(
    service: Service, rest: Client, queue_name: str, new_name: Callable[[], str]
) -> None:
    dead, other = rest.create_queue(new_name()), rest.create_queue(new_name())
    rest.change_queue(
        queue_name, {"RedrivePolicy": json.dumps({"deadLetterTargetArn": dead.arn, "maxReceiveCount": 1})}
    )
    fill_dead_letters(service, rest, queue_name, dead.name, 60)  # a minute's work for the redrive
    queues, region = f"{service.url}/api/v1/accounts/{rest.account}/queues", {"region": REGION}

    def holder(queue: str) -> dict[str, str]:
        return {"authorization": f"Bearer {rest.create_permission(['Redrive'], queue=queue).token}"}

    of_dead, of_other = holder(dead.name), holder(other.name)
    path = f"{queues}/{dead.name}/redrives"
    elsewhere = httpx.post(path, json={"destinationArn": other.arn}, params=region, headers=of_dead)
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (403, "AccessDenied")
    handle = httpx.post(path, json={"messagesPerSecond": 1}, params=region, headers=of_dead).json()["handle"]
    foreign = httpx.delete(f"{queues}/{other.name}/redrives/{handle}", params=region, headers=of_other)
    assert (foreign.status_code, foreign.json()["code"]) == (404, "NoSuchRedrive")
    assert httpx.delete(f"{path}/{handle}", params=region, headers=of_dead).status_code == 200
