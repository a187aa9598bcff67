"""The acceptance tests on the cluster form: two API processes behind one address and two Celery workers.

`python -m tests.acceptance.over_cluster [OPTION…] [TEST…]` runs them as pytest does, by default all that can run there;
options are written as one word (`-mslice`). Left out are whole files:

- `test_up`, `test_up_faults`, `test_up_modes`, `test_up_pools`: about `cns up`, its supervisor, its store process and
  its disk;
- `test_apart`: a CNS and a CQS with different data, each of them embedded;
- `test_gateway`, `test_redis_channels`, `test_mail`, `test_remote_queues`, `test_retries_over_restarts`,
  `test_fairness`, `test_foreign_validators`, `test_other_languages`: with services of their own, on one machine;
- `test_compat_localstack`, `test_compat_peeking`, `test_compat_sns`: about `--compat localstack`, on one machine.
- `test_sns_mobile`, `test_sns_queue_delivery`: pass there, too, and are left out for their time;
- `test_sns_lanes`, `test_explain`: about the order of one process's fan-out, and the events of one machine.

`LEFT_OUT` names single tests and says why.
"""

from __future__ import annotations

import os
import subprocess
import sys

TESTS = [
    f"tests/acceptance/{name}.py"
    for name in (
        "test_sqs_boto3",
        "test_sqs_polls",
        "test_sns_boto3",
        "test_sns_topics",
        "test_sns_fifo",
        "test_sns_filters",
        "test_sns_replay",
        "test_sns_many",
        "test_sns_retries",
        "test_sns_delivery_logs",
        "test_outbox",
        "test_pools",
        "test_accounts",
        "test_users",
        "test_wire",
        "test_aws_cli",
        "test_terraform_calls",
        "test_terraform_queues",
        "test_celery",
        "test_move_tasks",
        "test_cluster",
    )
]
LEFT_OUT = {
    "test_accounts.py::test_with_the_service_stopped": "about accounts in a data directory",
    "test_users.py::test_with_the_service_stopped": "about accounts in a data directory",
    "test_wire.py::test_a_head_that_never_ends_is_refused": "the balancer answers it, with 400",
    "test_wire.py::test_what_is_no_http[GET / HTTP/9.9\\r\\n\\r\\n]": "the balancer makes HTTP/1.1 of it",
}


def main(words: list[str]) -> int:
    left_out = [f"--deselect=tests/acceptance/{test}" for test in LEFT_OUT]
    named = any(not word.startswith("-") for word in words)
    tests = [sys.executable, "-m", "pytest", "-q", *left_out, *words, *([] if named else TESTS)]
    return subprocess.run(tests, env={**os.environ, "CNS_STORE": "cassandra"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
