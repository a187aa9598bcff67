"""Errors for callers without permission: unsigned ones, other accounts, and owners whom a policy denies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cqs.api import ANONYMOUS
from tests.integration.cqs.door import JSON, NO_QUEUE, OWNER, REGION, STRANGER, Door, Reply
from tests.integration.cqs.sqs import ACCOUNT, OTHER_ACCOUNT
from tests.integration.cqs.sqs_wire import CORAL

spec = pytest.mark.spec
ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"
ROOTS = {key.account: f"arn:aws:iam::{key.account}:root" for key in (OWNER, STRANGER)}


def policy(effect: str, action: str, principal: str = "*") -> dict[str, str]:
    statement = {"Effect": effect, "Principal": {"AWS": principal}, "Action": action, "Resource": ARN}
    return {"Policy": json.dumps({"Statement": [statement]})}


async def unsigned(door: Door, action: str, **members: Any) -> Reply:
    fields = {"content-type": JSON, "x-amz-target": f"AmazonSQS.{action}"}
    return await door.send("POST", "/", fields, json.dumps(members).encode())


def denied(text: str) -> tuple[int, str, str, str]:
    return 403, "AccessDenied;Sender", f"{CORAL}AccessDeniedException", text


def not_authorized(account: str, action: str, why: str) -> str:
    return f"User: {ROOTS[account]} is not authorized to perform: sqs:{action} on resource: {ARN} {why}"


@spec("policy.refusal", "policy.text-not-allowed", "policy.other-account")
async def test_another_account_that_no_policy_lets_in(door: Door) -> None:
    url = await door.queue("q")
    why = "because no resource-based policy allows the sqs:sendmessage action"
    text = not_authorized(OTHER_ACCOUNT, "sendmessage", why)
    in_json = await door.json("SendMessage", key=STRANGER, QueueUrl=url, MessageBody="x")
    assert in_json.fault == denied(text)
    in_query = await door.query("SendMessage", {"QueueUrl": url, "MessageBody": "x"}, key=STRANGER)
    assert in_query.query_fault == (403, "AccessDenied", "Sender", text)
    await door.json("SetQueueAttributes", QueueUrl=url, Attributes=policy("Allow", "sqs:SendMessage", OTHER_ACCOUNT))
    assert (await door.json("SendMessage", key=STRANGER, QueueUrl=url, MessageBody="x")).status == 200


@spec("policy.text-denied", "policy.deny-wins", "policy.same-account")
async def test_an_owner_whom_a_policy_denies(door: Door) -> None:
    url = await door.queue("q")
    assert (await door.json("SendMessage", QueueUrl=url, MessageBody="x")).status == 200
    await door.json("SetQueueAttributes", QueueUrl=url, Attributes=policy("Deny", "sqs:SendMessage"))
    reply = await door.json("SendMessage", QueueUrl=url, MessageBody="x")
    why = "with an explicit deny in a resource-based policy"
    assert reply.fault == denied(not_authorized(ACCOUNT, "sendmessage", why))
    assert (await door.json("ReceiveMessage", QueueUrl=url)).status == 200
    await door.sqs.send(url, policies_enforced=False)


@spec("policy.everyone", "policy.absent-queue-unsigned")
async def test_unsigned_callers(door: Door) -> None:
    url = await door.queue("q")
    sent = await unsigned(door, "SendMessage", QueueUrl=url, MessageBody="x")
    assert sent.fault == denied(f"Access to the resource {url} is denied.")
    absent = await unsigned(door, "SendMessage", QueueUrl=f"{url}-not", MessageBody="x")
    assert absent.fault == denied(f"Access to the resource {url}-not is denied.")
    unnamed = await unsigned(door, "SendMessage", MessageBody="x")
    assert unnamed.fault == denied(f"Access to the resource {door.url}/ is denied.")
    found = await unsigned(door, "GetQueueUrl", QueueName="q")
    assert found.fault == denied(f"Access to the resource {door.url}/ is denied.")
    await door.json("SetQueueAttributes", QueueUrl=url, Attributes=policy("Allow", "sqs:*"))
    assert (await unsigned(door, "SendMessage", QueueUrl=url, MessageBody="x")).status == 200
    found = await unsigned(door, "GetQueueUrl", QueueName="q", QueueOwnerAWSAccountId=ACCOUNT)
    assert found.json() == {"QueueUrl": url}


@spec("queue.closed-to-others", "queue.own-account-only")
@pytest.mark.parametrize("action", ["DeleteQueue", "SetQueueAttributes", "TagQueue", "ListQueues", "CreateQueue"])
async def test_calls_that_no_policy_allows(door: Door, action: str) -> None:
    url = await door.queue("q", **policy("Allow", "*"))
    members = {"QueueUrl": url, "QueueName": "q", "Tags": {"a": "b"}, "Attributes": {"DelaySeconds": "1"}}
    assert action not in ANONYMOUS
    reply = await unsigned(door, action, **members)
    assert reply.fault == denied(f"Access to the resource {door.url}/ is denied.")


@spec("policy.absent-queue")
async def test_a_queue_that_is_not_there(door: Door) -> None:
    url = await door.queue("q")
    reply = await door.json("SendMessage", key=STRANGER, QueueUrl=f"{url}-not", MessageBody="x")
    assert reply.fault == NO_QUEUE


@spec("policy.batch-actions")
async def test_a_batch_needs_the_permission_of_a_single_call(door: Door) -> None:
    url = await door.queue("q", **policy("Allow", "sqs:SendMessage", OTHER_ACCOUNT))

    async def status(action: str, **entry: Any) -> int:
        return (await door.json(action, key=STRANGER, QueueUrl=url, Entries=[{"Id": "a", **entry}])).status

    assert await status("SendMessageBatch", MessageBody="x") == 200
    (message,) = (await door.json("ReceiveMessage", QueueUrl=url)).json()["Messages"]
    held = {"ReceiptHandle": message["ReceiptHandle"]}
    for action in ("ChangeMessageVisibility", "DeleteMessage"):
        assert await status(f"{action}Batch", **held, VisibilityTimeout=9) == 403
        allowed = policy("Allow", f"sqs:{action}", OTHER_ACCOUNT)
        await door.json("SetQueueAttributes", QueueUrl=url, Attributes=allowed)
        assert await status(f"{action}Batch", **held, VisibilityTimeout=9) == 200
