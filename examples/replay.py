"""Archive and replay: a service that comes late gets what was published before it was there, then what is new."""

import json
import uuid
from typing import Any

import boto3

BEFORE, AFTER = ["one", "two", "three"], "four"


def main() -> None:
    sns, sqs = boto3.client("sns"), boto3.client("sqs")
    run = uuid.uuid4().hex[:8]
    topic = sns.create_topic(
        Name=f"events-{run}.fifo",
        Attributes={"FifoTopic": "true", "ContentBasedDeduplication": "true", "ArchivePolicy": keep_days(30)},
    )["TopicArn"]
    for text in BEFORE:
        sns.publish(TopicArn=topic, Message=text, MessageGroupId="all")
    queue, subscription = subscribe(f"late-{run}.fifo", topic)
    sns.set_subscription_attributes(
        SubscriptionArn=subscription, AttributeName="ReplayPolicy", AttributeValue=from_the_beginning(topic)
    )
    for envelope in receive(queue, len(BEFORE)):
        print(envelope["Message"], "replayed:", envelope.get("Replayed"))
    sns.publish(TopicArn=topic, Message=AFTER, MessageGroupId="all")
    for envelope in receive(queue, 1):
        print(envelope["Message"])
    sqs.delete_queue(QueueUrl=queue)
    sns.set_topic_attributes(TopicArn=topic, AttributeName="ArchivePolicy", AttributeValue="{}")  # deletes the archive
    sns.delete_topic(TopicArn=topic)


def keep_days(days: int) -> str:
    return json.dumps({"MessageRetentionPeriod": str(days)})


def from_the_beginning(topic: str) -> str:
    attributes = boto3.client("sns").get_topic_attributes(TopicArn=topic)["Attributes"]
    return json.dumps({"PointType": "Timestamp", "StartingPoint": attributes["BeginningArchiveTime"]})


def subscribe(name: str, topic: str) -> tuple[str, str]:
    """Make a FIFO queue that the topic may send to, and subscribe it. Returns its URL and the subscription."""
    sqs = boto3.client("sqs")
    queue = str(sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"])
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
    subscribed = boto3.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, ReturnSubscriptionArn=True)
    return queue, str(subscribed["SubscriptionArn"])


def receive(queue: str, count: int) -> list[Any]:
    sqs = boto3.client("sqs")
    found: list[Any] = []
    while len(found) < count:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        for message in answer.get("Messages", []):
            found.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return found


if __name__ == "__main__":
    main()
