"""Access by queue policy: owners, other accounts, unsigned callers and topics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cns_common.aws.call import ANONYMOUS, root_caller
from tests.integration.cqs.sqs import ACCOUNT, BASE_URL, OTHER_ACCOUNT, Sqs, refused

ARN = f"arn:aws:sqs:us-east-1:{ACCOUNT}:q"
URL = f"{BASE_URL}/{ACCOUNT}/q"
STRANGER = root_caller(OTHER_ACCOUNT)


def policy(**statement: Any) -> str:
    whole = {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": ARN, **statement}
    return json.dumps({"Version": "2012-10-17", "Statement": [whole]})


def not_authorized(action: str, why: str, who: str = STRANGER.arn) -> tuple[str, str]:
    return (
        "AccessDenied",
        f"User: {who} is not authorized to perform: sqs:{action} on resource: {ARN} {why}",
    )


def not_allowed(action: str) -> tuple[str, str]:
    return not_authorized(action, f"because no resource-based policy allows the sqs:{action} action")


@pytest.mark.spec("sender.other-account")
async def test_other_accounts_need_a_policy(sqs: Sqs) -> None:
    url = await sqs.queue()
    assert await refused(sqs.send(url, caller=STRANGER)) == not_allowed("sendmessage")
    await sqs.send(url, caller=STRANGER, policies_enforced=False)
    allowed = policy(Principal={"AWS": OTHER_ACCOUNT}, Action="sqs:SendMessage")
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"Policy": allowed})
    await sqs.send(url, caller=STRANGER)
    batch = [{"Id": "a", "MessageBody": "x"}]
    await sqs("SendMessageBatch", QueueUrl=url, Entries=batch, caller=STRANGER)
    assert await refused(sqs.receive(url, caller=STRANGER)) == not_allowed("receivemessage")
    found = sqs("GetQueueUrl", QueueName="q", QueueOwnerAWSAccountId=ACCOUNT, caller=STRANGER)
    assert await refused(found) == not_allowed("getqueueurl")
    (message, *_) = await sqs.receive(url, AttributeNames=["SenderId"])
    assert message["Attributes"]["SenderId"] == OTHER_ACCOUNT
    await sqs("SetQueueAttributes", QueueUrl=url, Attributes={"Policy": ""})
    assert await refused(sqs.send(url, caller=STRANGER)) == not_allowed("sendmessage")


async def test_bare_names_are_the_callers_own(sqs: Sqs) -> None:
    await sqs.queue(Policy=policy())
    assert (await refused(sqs.send("q", caller=STRANGER)))[0] == "QueueDoesNotExist"
    await sqs.send(URL, caller=STRANGER)


CLOSED: dict[str, dict[str, Any]] = {
    "AddPermission": {"Label": "l", "AWSAccountIds": [OTHER_ACCOUNT], "Actions": ["SendMessage"]},
    "RemovePermission": {"Label": "l"},
    "DeleteQueue": {},
    "ListQueueTags": {},
    "SetQueueAttributes": {"Attributes": {"DelaySeconds": "1"}},
    "TagQueue": {"Tags": {"a": "b"}},
    "UntagQueue": {"TagKeys": ["a"]},
}


@pytest.mark.spec("queue.closed-to-others")
@pytest.mark.parametrize("action", CLOSED)
async def test_closed_to_other_accounts(sqs: Sqs, action: str) -> None:
    await sqs.queue(Policy=policy())
    call = sqs(action, QueueUrl=URL, caller=STRANGER, **CLOSED[action])
    assert await refused(call) == not_allowed(action.lower())


@pytest.mark.parametrize("action", ["GetQueueAttributes", "PurgeQueue", "ListDeadLetterSourceQueues"])
async def test_open_by_policy(sqs: Sqs, action: str) -> None:
    await sqs.queue(Policy=policy())
    await sqs(action, QueueUrl=URL, caller=STRANGER)


async def test_an_unsigned_caller_has_no_account_for_queues(sqs: Sqs) -> None:
    root = ("AccessDenied", f"Access to the resource {BASE_URL}/ is denied.")
    assert await refused(sqs("ListQueues", caller=ANONYMOUS)) == root
    assert await refused(sqs("CreateQueue", QueueName="x", caller=ANONYMOUS)) == root


@pytest.mark.spec("permission.statement", "permission.one-or-list", "permission.all-actions", "permission.last-removed")
async def test_add_and_remove_permission(sqs: Sqs) -> None:
    url = await sqs.queue()
    await sqs("AddPermission", QueueUrl=url, Label="one", AWSAccountIds=[OTHER_ACCOUNT], Actions=["SendMessage"])
    await sqs.send(url, caller=STRANGER)
    third = "222222222222"
    await sqs(
        "AddPermission",
        QueueUrl=url,
        Label="two",
        AWSAccountIds=[OTHER_ACCOUNT, third],
        Actions=["*", "GetQueueUrl"],
    )
    shown = (await sqs.attributes(url, "Policy"))["Policy"]
    assert json.loads(shown) == {
        "Version": "2008-10-17",
        "Id": f"{ARN}/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "one",
                "Effect": "Allow",
                "Principal": {"AWS": STRANGER.arn},
                "Action": "SQS:SendMessage",
                "Resource": ARN,
            },
            {
                "Sid": "two",
                "Effect": "Allow",
                "Principal": {"AWS": [STRANGER.arn, root_caller(third).arn]},
                "Action": ["SQS:*", "SQS:GetQueueUrl"],
                "Resource": ARN,
            },
        ],
    }
    await sqs("RemovePermission", QueueUrl=url, Label="two")
    assert await refused(sqs.receive(url, caller=STRANGER)) == not_allowed("receivemessage")
    await sqs("RemovePermission", QueueUrl=url, Label="one")
    assert await sqs.attributes(url, "Policy") == {}


GRANT: dict[str, Any] = {"Label": "label", "AWSAccountIds": [OTHER_ACCOUNT], "Actions": ["SendMessage"]}


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        (
            {"Actions": ["CreateQueue"]},
            "InvalidParameterValue",
            "Value SQS:CreateQueue for parameter ActionName is invalid. "
            "Reason: Only the queue owner is allowed to invoke this action.",
        ),
        (
            {"AWSAccountIds": []},
            "InvalidParameterValue",
            "Value [] for parameter PrincipalId is invalid. Reason: Unable to verify.",
        ),
        ({"AWSAccountIds": ["12345", "\ud800"]}, "InvalidParameterValue", None),
        ({"AWSAccountIds": [OTHER_ACCOUNT] * 51}, "OverLimit", None),
    ],
)
async def test_add_permission_refused(sqs: Sqs, changes: dict[str, Any], code: str, text: str | None) -> None:
    url = await sqs.queue()
    refusal = await refused(sqs("AddPermission", QueueUrl=url, **GRANT | changes))
    assert refusal == (code, refusal[1] if text is None else text)


@pytest.mark.spec("permission.policy-statements")
async def test_at_most_twenty_statements(sqs: Sqs) -> None:
    url = await sqs.queue()
    for n in range(20):
        await sqs("AddPermission", QueueUrl=url, **GRANT | {"Label": f"label{n}"})
    assert await refused(sqs("AddPermission", QueueUrl=url, **GRANT)) == (
        "OverLimit",
        "21 Statements were found, maximum allowed is 20.",
    )
