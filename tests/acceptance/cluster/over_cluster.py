"""The acceptance tests on the cluster form: two API processes behind one address and two Celery workers.

`python -m tests.acceptance.cluster.over_cluster [OPTION…] [TEST…]` runs them as pytest does, by default `TESTS`.
Options are written as one word (`-mslice`). Other files stay out:

- `up/`: about `cns up`, its supervisor, its store process and its disk, or two services of different data;
- `localstack/`, `clients/`, and of `sns/` `test_gateway`, `test_redis_channels`, `test_mail`, `test_remote_queues`,
  `test_retries_over_restarts`, `test_fairness`: with services of their own, on one machine;
- `sns/test_mobile`, `sns/test_queue_delivery`: pass there, too, and are left out for their time;
- `sns/test_lanes`, `cli/test_explain`: about the order of one process's fan-out, and the events of one machine.

`LEFT_OUT` names single tests and says why.
"""

from __future__ import annotations

import os
import subprocess
import sys

FOLDER = "tests/acceptance"
TESTS = [
    f"{FOLDER}/{name}.py"
    for name in (
        "sqs/test_boto3",
        "sqs/test_long_polls",
        "sqs/test_wire",
        "sqs/test_celery",
        "sqs/test_move_tasks",
        "sqs/test_audit",
        "sns/test_boto3",
        "sns/test_topics",
        "sns/test_fifo",
        "sns/test_filters",
        "sns/test_replay",
        "sns/test_many",
        "sns/test_retries",
        "sns/test_delivery_logs",
        "sns/test_outbox",
        "cli/test_pools",
        "cli/test_accounts",
        "cli/test_replay",
        "cli/test_users",
        "cli/test_aws_cli",
        "terraform/test_calls",
        "cluster/test_cluster",
        "cluster/test_engines",
        "cluster/test_debug_views",
        "rest/test_account_removal",
    )
]
LEFT_OUT = {
    "cli/test_accounts.py::test_with_the_service_stopped": "about accounts in a data directory",
    "cli/test_users.py::test_with_the_service_stopped": "about accounts in a data directory",
    "sqs/test_wire.py::test_a_head_that_never_ends_is_refused": "the balancer answers it, with 400",
    "sqs/test_wire.py::test_what_is_no_http[GET / HTTP/9.9\\r\\n\\r\\n]": "the balancer makes HTTP/1.1 of it",
}


def main(words: list[str]) -> int:
    left_out = [f"--deselect={FOLDER}/{test}" for test in LEFT_OUT]
    named = any(not word.startswith("-") for word in words)
    tests = [sys.executable, "-m", "pytest", "-q", *left_out, *words, *([] if named else TESTS)]
    return subprocess.run(tests, env={**os.environ, "CNS_STORE": "cassandra"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
