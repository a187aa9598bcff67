"""Aggregation: many senders, one receiver that adds up what they send, and counts no message twice."""

import json
import threading
import uuid
from collections import defaultdict

import boto3

SENSORS, READINGS = 4, 5


def main() -> None:
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(QueueName=f"readings-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    sensors = [threading.Thread(target=measure, args=(queue, f"sensor-{number}")) for number in range(SENSORS)]
    for sensor in sensors:
        sensor.start()
    sums = aggregate(queue, SENSORS * READINGS)
    for sensor in sensors:
        sensor.join()
    sqs.delete_queue(QueueUrl=queue)
    print("sums:", ", ".join(f"{sensor} {total}" for sensor, total in sorted(sums.items())))


def measure(queue: str, sensor: str) -> None:
    """A sensor. It sends each reading twice, as one does whose first attempt got no answer."""
    sqs = boto3.client("sqs")
    for number in range(READINGS):
        body = json.dumps({"id": f"{sensor}/{number}", "sensor": sensor, "value": number})
        entries = [{"Id": copy, "MessageBody": body} for copy in ("first", "again")]
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)


def aggregate(queue: str, readings: int) -> dict[str, int]:
    """Queues deliver at least once, so a reading has an id, and one that was seen is passed over."""
    sqs = boto3.client("sqs")
    seen: set[str] = set()
    sums: dict[str, int] = defaultdict(int)
    while len(seen) < readings:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        for message in answer.get("Messages", []):
            reading = json.loads(message["Body"])
            if reading["id"] not in seen:
                seen.add(reading["id"])
                sums[reading["sensor"]] += reading["value"]
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return sums


if __name__ == "__main__":
    main()
