"""Publish–subscribe: two services get the events of one topic, one of them only those that its filter lets through."""

import json
import uuid
from typing import Any

import boto3

EVENTS = [("order-placed", "42"), ("order-paid", "42"), ("order-placed", "43")]


def main() -> None:
    sns, sqs = boto3.client("sns"), boto3.client("sqs")
    run = uuid.uuid4().hex[:8]
    topic = sns.create_topic(Name=f"events-{run}")["TopicArn"]
    mailer = subscribe(f"mailer-{run}", topic, {})
    billing = subscribe(f"billing-{run}", topic, {"FilterPolicy": json.dumps({"event": ["order-paid"]})})
    for event, order in EVENTS:
        attributes: Any = {"event": {"DataType": "String", "StringValue": event}}
        sns.publish(TopicArn=topic, Message=order, MessageAttributes=attributes)
    print("mailer:", *receive(mailer, len(EVENTS)))
    print("billing:", *receive(billing, 1))
    for queue in (mailer, billing):
        sqs.delete_queue(QueueUrl=queue)
    sns.delete_topic(TopicArn=topic)


def subscribe(name: str, topic: str, attributes: dict[str, str]) -> str:
    """Make a service's queue that the topic may send to, and subscribe it."""
    sqs = boto3.client("sqs")
    queue = str(sqs.create_queue(QueueName=name)["QueueUrl"])
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": policy})
    boto3.client("sns").subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true", **attributes}
    )
    return queue


def receive(queue: str, count: int) -> list[str]:
    sqs = boto3.client("sqs")
    found: list[str] = []
    while len(found) < count:
        answer = sqs.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20, MessageAttributeNames=["All"]
        )
        for message in answer.get("Messages", []):
            found.append(f"{message['MessageAttributes']['event']['StringValue']} {message['Body']}")
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return sorted(found)


if __name__ == "__main__":
    main()
