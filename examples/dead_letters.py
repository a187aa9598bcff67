"""Dead letters: a message that no consumer can process is moved aside, and comes back when the consumer was mended."""

import json
import uuid
from typing import Any

import boto3

MAX_RECEIVES = 2


def main() -> None:
    sqs = boto3.client("sqs")
    run = uuid.uuid4().hex[:8]
    dead = sqs.create_queue(QueueName=f"dead-{run}")["QueueUrl"]
    dead_arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": MAX_RECEIVES})
    queue = sqs.create_queue(QueueName=f"work-{run}", Attributes={"RedrivePolicy": redrive, "VisibilityTimeout": "0"})[
        "QueueUrl"
    ]
    for body in ("good", "poison"):
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    print("processed:", *consume(queue, can_process={"good"}))
    letter = receive(dead, 20)[0]
    print("dead:", letter["Body"], "after", int(letter["Attributes"]["ApproximateReceiveCount"]) - 1, "receives")
    release(dead, letter)
    sqs.start_message_move_task(SourceArn=dead_arn)  # to the queues that the messages came from
    print("processed:", *receive_and_delete(queue))
    for url in (queue, dead):
        sqs.delete_queue(QueueUrl=url)


def consume(queue: str, can_process: set[str]) -> list[str]:
    """Work until no message is left. One that cannot be processed is not deleted, so it is received again."""
    sqs = boto3.client("sqs")
    done: list[str] = []
    while messages := receive(queue, 1):
        for message in messages:
            if message["Body"] in can_process:
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
                done.append(message["Body"])
    return done


def receive(queue: str, wait_s: int) -> list[Any]:
    sqs = boto3.client("sqs")
    answer = sqs.receive_message(
        QueueUrl=queue, WaitTimeSeconds=wait_s, MessageSystemAttributeNames=["ApproximateReceiveCount"]
    )
    return list(answer.get("Messages", []))


def receive_and_delete(queue: str) -> list[str]:
    sqs = boto3.client("sqs")
    (message,) = receive(queue, 20)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return [message["Body"]]


def release(queue: str, message: Any) -> None:
    """Make the message visible again: a redrive moves visible messages only."""
    boto3.client("sqs").change_message_visibility(
        QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
    )


if __name__ == "__main__":
    main()
