"""The acceptance tests on the cluster form, in a keyspace made for them.

`python -m tests.acceptance.over_cluster PATH…` runs them as pytest does; what needs a FIFO queue is left out until the
engine has one (`conftest` looks at `CLUSTER`).
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.keyspace import keyspace
from tests.servers import redis_url


def main(words: list[str]) -> int:
    with keyspace() as place:
        cluster = {
            "CNS_STORE": "cassandra",
            "CNS_CASSANDRA": f"{place.hosts[0]}:{place.port}",
            "CNS_CASSANDRA_KEYSPACE": place.keyspace,
            "CNS_CASSANDRA_REPLICATION": "1",
            "CNS_REDIS": redis_url(),
        }
        tests = [sys.executable, "-m", "pytest", "-q", *words]
        return subprocess.run(tests, env={**os.environ, **cluster}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
