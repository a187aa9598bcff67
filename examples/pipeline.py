"""A MapReduce-like pipeline: a splitter, mappers that count words, and a reducer, with a queue between two stages."""

import json
import threading
import uuid
from collections import Counter
from typing import Any

import boto3

TEXT = """a rose is a rose is a rose
the queue is between the stages
a stage is as fast as its workers
the rose is red"""
MAPPERS = 2


def main() -> None:
    sqs = boto3.client("sqs")
    run = uuid.uuid4().hex[:8]
    lines, counts = (sqs.create_queue(QueueName=f"{name}-{run}")["QueueUrl"] for name in ("lines", "counts"))
    parts = split(sqs, lines)
    stop = threading.Event()
    mappers = [threading.Thread(target=map_lines, args=(lines, counts, stop)) for _ in range(MAPPERS)]
    for mapper in mappers:
        mapper.start()
    total = reduce_counts(sqs, counts, parts)
    stop.set()
    for mapper in mappers:
        mapper.join()
    for queue in (lines, counts):
        sqs.delete_queue(QueueUrl=queue)
    print(
        "most frequent:", ", ".join(f"{word} {n}" for word, n in sorted(total.items(), key=lambda x: (-x[1], x[0]))[:4])
    )


def split(sqs: Any, lines: str) -> int:
    """Send a message for each part; returns how many."""
    parts = TEXT.splitlines()
    for number, line in enumerate(parts):
        sqs.send_message(QueueUrl=lines, MessageBody=json.dumps({"part": number, "text": line}))
    return len(parts)


def map_lines(lines: str, counts: str, stop: threading.Event) -> None:
    """Count the words of a part. The part is deleted after its result is sent: a crash between repeats the result."""
    sqs = boto3.client("sqs")
    while not stop.is_set():
        for message in sqs.receive_message(QueueUrl=lines, WaitTimeSeconds=1).get("Messages", []):
            part = json.loads(message["Body"])
            result = {"part": part["part"], "words": Counter(part["text"].split())}
            sqs.send_message(QueueUrl=counts, MessageBody=json.dumps(result))
            sqs.delete_message(QueueUrl=lines, ReceiptHandle=message["ReceiptHandle"])


def reduce_counts(sqs: Any, counts: str, parts: int) -> Counter[str]:
    """Add the results of all parts, each once however often it comes."""
    results: dict[int, dict[str, int]] = {}
    while len(results) < parts:
        answer = sqs.receive_message(QueueUrl=counts, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        for message in answer.get("Messages", []):
            result = json.loads(message["Body"])
            results[result["part"]] = result["words"]
            sqs.delete_message(QueueUrl=counts, ReceiptHandle=message["ReceiptHandle"])
    total: Counter[str] = Counter()
    for words in results.values():
        total.update(words)
    return total


if __name__ == "__main__":
    main()
