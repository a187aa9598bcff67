"""Filter policies: operators on attributes and on the JSON body, and which queue gets which message."""

import json
import uuid
from typing import Any

import boto3

POLICIES: dict[str, tuple[str, Any]] = {
    "exact": ("MessageAttributes", {"colour": ["red", "green"]}),
    "prefix": ("MessageAttributes", {"colour": [{"prefix": "dark-"}]}),
    "other": ("MessageAttributes", {"colour": [{"anything-but": ["red"]}]}),
    "cheap": ("MessageAttributes", {"price": [{"numeric": [">=", 1, "<", 100]}]}),
    "both": ("MessageAttributes", {"colour": ["red"], "price": [{"exists": True}]}),
    "either": ("MessageAttributes", {"$or": [{"colour": ["blue"]}, {"price": [{"numeric": [">", 1000]}]}]}),
    "body": ("MessageBody", {"shop": {"city": ["Berlin"]}}),
}
MESSAGES: dict[str, tuple[dict[str, Any], Any]] = {
    "apple": ({"colour": "red", "price": 1}, {"shop": {"city": "Berlin"}}),
    "berry": ({"colour": "dark-blue"}, {"shop": {"city": "Rome"}}),
    "car": ({"colour": "blue", "price": 20000}, {"shop": {"city": "Berlin"}}),
}


def main() -> None:
    sns, sqs = boto3.client("sns"), boto3.client("sqs")
    run = uuid.uuid4().hex[:8]
    topic = sns.create_topic(Name=f"events-{run}")["TopicArn"]
    queues = {name: subscribe(f"{name}-{run}", topic, *POLICIES[name]) for name in POLICIES}
    everything = subscribe(f"everything-{run}", topic, "MessageAttributes", {})
    for name, (attributes, body) in MESSAGES.items():
        sns.publish(
            TopicArn=topic,
            Message=json.dumps({"name": name, **body}),
            MessageAttributes={key: attribute(value) for key, value in attributes.items()},
        )
    receive(everything, len(MESSAGES))
    for name, queue in queues.items():
        print(f"{name}:", *receive(queue, EXPECTED[name]))
    for queue in (everything, *queues.values()):
        sqs.delete_queue(QueueUrl=queue)
    sns.delete_topic(TopicArn=topic)


EXPECTED = {"exact": 1, "prefix": 1, "other": 2, "cheap": 1, "both": 1, "either": 1, "body": 2}
"""The number of messages that each queue waits for."""


def attribute(value: Any) -> Any:
    """Numbers are compared only if the attribute's type is Number."""
    return {"DataType": "Number" if isinstance(value, int) else "String", "StringValue": str(value)}


def subscribe(name: str, topic: str, scope: str, policy: Any) -> str:
    """Make a queue that the topic may send to, and subscribe it with a filter policy, or without one."""
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
    allow = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": allow})
    filtering = {"FilterPolicyScope": scope, "FilterPolicy": json.dumps(policy)} if policy else {}
    boto3.client("sns").subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true", **filtering}
    )
    return queue


def receive(queue: str, count: int) -> list[str]:
    sqs = boto3.client("sqs")
    found: list[str] = []
    while len(found) < count:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        for message in answer.get("Messages", []):
            found.append(json.loads(message["Body"])["name"])
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return sorted(found)


if __name__ == "__main__":
    main()
