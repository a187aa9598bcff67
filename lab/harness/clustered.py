"""The service under acceptance test, in the cluster form: API processes behind one address, Celery workers, stores."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cassandra.cluster import EXEC_PROFILE_DEFAULT, ExecutionProfile
from cassandra.cluster import Cluster as Cassandra
from cassandra.policies import RoundRobinPolicy

from cns_pytest.http import fetch
from lab.harness.cluster import Cluster, cluster
from lab.harness.keyspace import TABLES
from lab.harness.service import OBSERVER, Samples, Service, read_samples

CLUSTER = os.environ.get("CNS_STORE") == "cassandra"
"""Whether the tests run on the cluster form."""
OPTIONS = {"--test-clock": ("CNS_TEST_CLOCK", "true"), "--auth=off": ("CNS_AUTH", "off")}
"""Options of `cns up`, as variables that each process of a cluster reads."""


@dataclass(frozen=True, kw_only=True)
class Clustered(Service):
    cluster: Cluster

    def at(self, index: int) -> Clustered:
        """The same service, called through one of its API processes."""
        return replace(self, url=self.cluster.apis[index].url)

    def said(self) -> str:
        return self.cluster.said()

    def events(self, event: str, **members: object) -> list[dict[str, Any]]:
        """The output of all processes, in the order of their starts."""
        return sorted(super().events(event, **members), key=lambda entry: str(entry["timestamp"]))

    def samples(self) -> Samples:
        """Metrics: the sum over API processes. A series with a process label is the same in each of them."""
        total: Samples = {}
        for index in range(len(self.cluster.apis)):
            for (name, labels), value in self.samples_at(index).items():
                theirs_alone = not any(label.startswith("process=") for label in labels)
                total[name, labels] = value + (total.get((name, labels), 0.0) if theirs_alone else 0.0)
        return total

    def samples_at(self, index: int) -> Samples:
        """The metrics of one API process."""
        return read_samples(fetch(f"{self.cluster.apis[index].url}/metrics", headers=OBSERVER)[1].decode())

    def cns(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.cluster.run(*words, check=check)

    def delivery_logs(self, *words: str) -> str:
        """The delivery logs of all workers, each of which has a directory of its own."""
        folders = [worker.environment["CNS_DATA"] for worker in self.cluster.workers]
        return "".join(self.cluster.cns("logs", *words, "--data", folder) for folder in folders)

    def copies(self, text: str) -> int:
        """The number of times that the rows of all tables hold the text."""
        host, _, port = self.cluster.environment["CNS_CASSANDRA"].rpartition(":")
        profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy())
        with Cassandra([host], int(port), execution_profiles={EXEC_PROFILE_DEFAULT: profile}) as cassandra:
            session = cassandra.connect(self.cluster.environment["CNS_CASSANDRA_KEYSPACE"])
            rows = [row for table in TABLES for row in session.execute(f"SELECT * FROM {table}")]
        return sum(_bytes(value).count(text.encode()) for row in rows for value in row)


@contextmanager
def serving(directory: Path, *options: str) -> Iterator[Clustered]:
    """`options` are those of `cns up`."""
    variables: dict[str, Any] = dict(OPTIONS[option] for option in options)
    with cluster(directory, **variables) as started:
        yield Clustered(url=started.url, environment=started.account(), cluster=started)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
