"""Fair queue: a tenant that has filled the queue does not keep the others waiting."""

import uuid
from collections import Counter
from typing import Any

import boto3

LARGE, HELD, SMALL = 60, 40, 3
"""Messages of the large tenant, those of it that consumers hold, and messages of the small tenant."""


def main() -> None:
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(QueueName=f"fair-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    send(queue, "large", LARGE)
    held = take(queue, HELD)
    print("in flight:", dict(Counter(map(tenant, held))))
    send(queue, "small", SMALL)
    following = take(queue, SMALL + 1)
    print("next:", *map(tenant, following))
    sqs.delete_queue(QueueUrl=queue)


def send(queue: str, tenant: str, count: int) -> None:
    """A `MessageGroupId` on a standard queue names the tenant; nothing else makes the queue fair."""
    sqs = boto3.client("sqs")
    for number in range(count):
        sqs.send_message(QueueUrl=queue, MessageBody=str(number), MessageGroupId=tenant)


def take(queue: str, count: int) -> list[Any]:
    """Receive messages one by one and leave them in flight, as busy consumers do."""
    sqs = boto3.client("sqs")
    taken: list[Any] = []
    while len(taken) < count:
        answer = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20, MessageSystemAttributeNames=["MessageGroupId"])
        taken += answer.get("Messages", [])
    return taken


def tenant(message: Any) -> str:
    return str(message["Attributes"]["MessageGroupId"])


if __name__ == "__main__":
    main()
