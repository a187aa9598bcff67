"""FIFO: two services get the events of each order in their order, and an event that is published twice arrives once."""

import json
import uuid
from collections import defaultdict

import boto3

EVENTS = [("42", "placed"), ("43", "placed"), ("42", "paid"), ("43", "cancelled"), ("42", "shipped")]


def main() -> None:
    sns, sqs = boto3.client("sns"), boto3.client("sqs")
    run = uuid.uuid4().hex[:8]
    topic = sns.create_topic(Name=f"events-{run}.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    queues = [subscribe(f"{name}-{run}.fifo", topic) for name in ("warehouse", "billing")]
    first = [publish(topic, order, event) for order, event in EVENTS]
    again = publish(topic, *EVENTS[0])  # by a publisher that got no answer
    print("the repetition has the first one's id:", again == first[0])
    for queue in queues:
        for order, events in sorted(receive(queue, len(EVENTS)).items()):
            print(order, *events)
        sqs.delete_queue(QueueUrl=queue)
    sns.delete_topic(TopicArn=topic)


def publish(topic: str, order: str, event: str) -> str:
    """The group is what must stay in order; the deduplication id is what is the same in a repetition."""
    sns = boto3.client("sns")
    published = sns.publish(
        TopicArn=topic, Message=event, MessageGroupId=order, MessageDeduplicationId=f"{order}-{event}"
    )
    return str(published["MessageId"])


def subscribe(name: str, topic: str) -> str:
    """Make a FIFO queue that the topic may send to, and subscribe it."""
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
    boto3.client("sns").subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"}
    )
    return queue


def receive(queue: str, count: int) -> dict[str, list[str]]:
    """The events by order. While a message of a group is in flight, no other receive gets one of that group."""
    sqs = boto3.client("sqs")
    found: dict[str, list[str]] = defaultdict(list)
    while sum(map(len, found.values())) < count:
        answer = sqs.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20, MessageSystemAttributeNames=["MessageGroupId"]
        )
        for message in answer.get("Messages", []):
            found[message["Attributes"]["MessageGroupId"]].append(message["Body"])
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return found


if __name__ == "__main__":
    main()
