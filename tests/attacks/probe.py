"""Normal signed calls, one after the other, in a process of their own: `python -m tests.attacks.probe URL`.

The keys come from the environment, as the AWS CLI takes them. Each call prints a line: its milliseconds, or `failed`
and the reason. The program ends when its standard input does.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import sys
import time
from urllib.parse import urlsplit

from cns_common.aws.auth.request_signing import SigningCredential, sign

PAUSE_S = 0.005
CALLS_PER_CONNECTION = 5
"""Calls on one connection; then a new one is opened, as clients without a pool do."""
TIMEOUT_S = 30.0
REGION = "us-east-1"
JSON = "application/x-amz-json-1.0"


class Caller:
    """SQS calls in AWS JSON, as one account."""

    def __init__(self, url: str, key_id: str, secret: str) -> None:
        self._host = urlsplit(url).netloc
        self._key_id = key_id
        self._secret = secret
        self._connection: http.client.HTTPConnection | None = None
        self._calls = 0

    def call(self, action: str, **members: object) -> int:
        """Make one call. Returns the status."""
        if self._connection is None or self._calls % CALLS_PER_CONNECTION == 0:
            self.close()
            self._connection = http.client.HTTPConnection(self._host, timeout=TIMEOUT_S)
        self._calls += 1
        body = json.dumps(members).encode()
        headers = {"host": self._host, "content-type": JSON, "x-amz-target": f"AmazonSQS.{action}"}
        headers |= sign(
            method="POST",
            path="/",
            headers=headers,
            body=body,
            credential=SigningCredential(self._key_id, self._secret, REGION, "sqs"),
            now_ms=time.time_ns() // 1_000_000,
        )
        self._connection.request("POST", "/", body, headers)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def main(url: str) -> None:
    caller = Caller(url, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
    caller.call("CreateQueue", QueueName="probe")
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        started_s = time.perf_counter()  # a measurement of the attack program: no test asserts it
        try:
            status = caller.call("GetQueueUrl", QueueName="probe")
            line = f"{(time.perf_counter() - started_s) * 1000:.3f}" if status == http.client.OK else f"failed {status}"
        except (OSError, http.client.HTTPException) as error:
            caller.close()
            line = f"failed {error!r}"
        print(line, flush=True)  # for the program that started it


if __name__ == "__main__":
    main(sys.argv[1])
