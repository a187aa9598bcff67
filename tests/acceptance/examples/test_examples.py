"""The programs in examples/ do what they print, and leave nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.harness.running import Up
from lab.harness.waiting import PATIENCE_S

EXAMPLES = Path(__file__).parents[3] / "examples"
PRINTED = {
    "unicast": "received: apples bread milk\n",
    "work_dispatch": ("20 of 20 tasks are done by 3 workers\nthe task of the worker that died is done: True\n"),
    "request_reply": "replies: HELLO QUEUE WORLD\n",
    "pipeline": "most frequent: is 5, a 4, rose 4, the 3\n",
    "aggregation": "sums: sensor-0 10, sensor-1 10, sensor-2 10, sensor-3 10\n",
    "fan_out": "mailer: order-paid 42 order-placed 42 order-placed 43\nbilling: order-paid 42\n",
    "fifo_orders": (
        "the repetition has the first one's id: True\n" + 2 * "42 placed paid shipped\n43 placed cancelled\n"
    ),
    "fair_queue": "in flight: {'large': 40}\nnext: small small small large\n",
    "filter_policies": (
        "exact: apple\nprefix: berry\nother: berry car\ncheap: apple\nboth: apple\neither: car\nbody: apple car\n"
    ),
    "replay": "one replayed: true\ntwo replayed: true\nthree replayed: true\nfour\n",
    "dead_letters": "processed: good\ndead: poison after 2 receives\nprocessed: poison\n",
    "celery_tasks": "1 + 2 = 3\n3 + 4 = 7\nfetched by attempt 3\n",
}


def test_every_program_is_run_and_named() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py")}
    page = (EXAMPLES / "README.md").read_text()
    assert programs == set(PRINTED) == set(re.findall(r"\| \[(\w+)\.py\]\(", page))


SLOW = ("work_dispatch", "celery_tasks", "filter_policies", "replay")
"""The first waits until the lease of a dead worker ends, the second for a worker's start."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.extended) if name in SLOW else name for name in PRINTED]
)
def test_it_prints_what_it_shows(service: Up, sqs: Any, sns: Any, name: str) -> None:
    def mine() -> list[str]:
        queues = sqs.list_queues(MaxResults=1000).get("QueueUrls", [])
        return [url for url in queues if re.search(r"/[a-z]+-[0-9a-f]{8}(-\w+|\.fifo)?$", url)]

    kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"],
        env={**kept, **service.environment, "PYTHONWARNINGS": "ignore"},  # of the worker that Celery's program starts
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, PRINTED[name], "")
    assert mine() == []
    assert not [topic for topic in sns.list_topics()["Topics"] if ":events-" in topic["TopicArn"]]
