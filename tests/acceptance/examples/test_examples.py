"""The programs in examples/ do what they print, and leave nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.running import Up

EXAMPLES = Path(__file__).parents[3] / "examples"
RUN_S = 100
PRINTED = {
    "unicast": "received: apples bread milk\n",
    "work_dispatch": ("20 of 20 tasks are done by 3 workers\nthe task of the worker that died is done: True\n"),
    "request_reply": "replies: HELLO QUEUE WORLD\n",
    "pipeline": "most frequent: is 5, a 4, rose 4, the 3\n",
    "aggregation": "sums: sensor-0 10, sensor-1 10, sensor-2 10, sensor-3 10\n",
    "fan_out": "mailer: order-paid 42 order-placed 42 order-placed 43\nbilling: order-paid 42\n",
}


def test_every_program_is_run_and_named() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py")}
    page = (EXAMPLES / "README.md").read_text()
    assert programs == set(PRINTED) == set(re.findall(r"\| \[(\w+)\.py\]\(", page))


WAITS = "work_dispatch"
"""It waits until the lease of a dead worker ends."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.extended) if name == WAITS else name for name in PRINTED]
)
def test_it_prints_what_it_shows(service: Up, sqs: Any, sns: Any, name: str) -> None:
    def mine() -> list[str]:
        queues = sqs.list_queues(MaxResults=1000).get("QueueUrls", [])
        return [url for url in queues if re.search(r"/[a-z]+-[0-9a-f]{8}$", url)]

    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"],
        env={**kept, **service.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, PRINTED[name], "")
    assert mine() == []
    assert not [topic for topic in sns.list_topics()["Topics"] if ":events-" in topic["TopicArn"]]
