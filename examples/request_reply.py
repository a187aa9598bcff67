"""Requests and replies over queues: each client has a queue for its replies, and tells them apart by an id."""

import threading
import uuid
from typing import Any

import boto3

SERVERS = 2


def main() -> None:
    sqs = boto3.client("sqs")
    requests = sqs.create_queue(QueueName=f"requests-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    stop = threading.Event()
    servers = [threading.Thread(target=serve, args=(requests, stop)) for _ in range(SERVERS)]
    for server in servers:
        server.start()
    client = Client(requests)
    answers = [client.ask(text) for text in ("hello", "queue", "world")]
    print("replies:", *answers)
    client.close()
    stop.set()
    for server in servers:
        server.join()
    sqs.delete_queue(QueueUrl=requests)


class Client:
    def __init__(self, requests: str) -> None:
        self._sqs = boto3.client("sqs")
        self._requests = requests
        self._replies = self._sqs.create_queue(QueueName=f"replies-{uuid.uuid4().hex[:8]}")["QueueUrl"]

    def ask(self, text: str) -> str:
        """Send a request and wait for its reply. A late reply to an earlier request is passed over."""
        correlation = uuid.uuid4().hex
        attributes = {"ReplyTo": _text(self._replies), "CorrelationId": _text(correlation)}
        self._sqs.send_message(QueueUrl=self._requests, MessageBody=text, MessageAttributes=attributes)
        while True:
            for message in _receive(self._sqs, self._replies, wait_s=20):
                if message["MessageAttributes"]["CorrelationId"]["StringValue"] == correlation:
                    return str(message["Body"])

    def close(self) -> None:
        self._sqs.delete_queue(QueueUrl=self._replies)


def serve(requests: str, stop: threading.Event) -> None:
    """A server; any number of them share the requests."""
    sqs = boto3.client("sqs")
    while not stop.is_set():
        for message in _receive(sqs, requests, wait_s=1):
            attributes = message["MessageAttributes"]
            sqs.send_message(
                QueueUrl=attributes["ReplyTo"]["StringValue"],
                MessageBody=message["Body"].upper(),
                MessageAttributes={"CorrelationId": _text(attributes["CorrelationId"]["StringValue"])},
            )


def _receive(sqs: Any, queue: str, wait_s: int) -> list[Any]:
    """Receive and delete."""
    messages = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=wait_s, MessageAttributeNames=["All"])
    found: list[Any] = messages.get("Messages", [])
    for message in found:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return found


def _text(value: str) -> Any:
    return {"DataType": "String", "StringValue": value}


if __name__ == "__main__":
    main()
