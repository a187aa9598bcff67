"""Unicast: a sender and a receiver that need not run at the same time. The queue keeps what was sent meanwhile."""

import uuid

import boto3

ORDERS = ["bread", "milk", "apples"]


def main() -> None:
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(QueueName=f"orders-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    send(queue)  # nobody receives yet
    print("received:", *receive(queue, len(ORDERS)))
    sqs.delete_queue(QueueUrl=queue)


def send(queue: str) -> None:
    """The shop: it knows the queue, not who reads it."""
    sqs = boto3.client("sqs")
    entries = [{"Id": str(number), "MessageBody": order} for number, order in enumerate(ORDERS)]
    sqs.send_message_batch(QueueUrl=queue, Entries=entries)


def receive(queue: str, count: int) -> list[str]:
    """The warehouse. A message is deleted when it was dealt with: what a crash leaves over comes again."""
    sqs = boto3.client("sqs")
    received: list[str] = []
    while len(received) < count:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        for message in answer.get("Messages", []):
            received.append(message["Body"])
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return sorted(received)


if __name__ == "__main__":
    main()
