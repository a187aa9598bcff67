"""Work dispatch: workers share the tasks of one queue, and the task of a worker that dies is done by another one."""

import threading
import uuid
from typing import Any

import boto3

TASKS, WORKERS = 20, 3
VISIBILITY_S = 5
"""A task returns to the queue this long after its worker died. Longer than a task takes."""


def main() -> None:
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(
        QueueName=f"tasks-{uuid.uuid4().hex[:8]}", Attributes={"VisibilityTimeout": str(VISIBILITY_S)}
    )["QueueUrl"]
    for number in range(TASKS):
        sqs.send_message(QueueUrl=queue, MessageBody=str(number))
    results = Results()
    lost = die_with_a_task(sqs, queue)
    workers = [threading.Thread(target=work, args=(queue, results)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sqs.delete_queue(QueueUrl=queue)
    print(f"{len(results.done)} of {TASKS} tasks are done by {WORKERS} workers")
    print("the task of the worker that died is done:", lost in results.done)


class Results:
    """The tasks that the workers have done."""

    def __init__(self) -> None:
        self.done: set[str] = set()
        self.complete = threading.Event()
        self._lock = threading.Lock()

    def add(self, task: str) -> None:
        """Add a task; the same one twice is the same."""
        with self._lock:
            self.done.add(task)
            if len(self.done) == TASKS:
                self.complete.set()


def work(queue: str, results: Results) -> None:
    sqs = boto3.client("sqs")
    while not results.complete.is_set():
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=1, WaitTimeSeconds=1)
        for message in answer.get("Messages", []):
            results.add(message["Body"])
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def die_with_a_task(sqs: Any, queue: str) -> str:
    """A worker that takes a task and never deletes it."""
    (message,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
    return str(message["Body"])


if __name__ == "__main__":
    main()
