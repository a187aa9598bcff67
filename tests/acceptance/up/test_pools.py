"""Sizes of pools and the life of the processes of `cns up`: a size that an operator set outlives them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cns_common.metrics.catalogue import POOL_THREADS
from lab.harness.running import Up, cns, running
from lab.harness.waiting import wait_until


def workers(data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cns("pool", "list", "--json", "--data", data).stdout)["workers"]
    return found


def threads(service: Up) -> dict[str, int]:
    """The threads of the delivery pool by worker, from the metrics: that is cheap enough to ask often."""
    return {
        next(label for label in labels if label.startswith("process=")).split('"')[1]: int(value)
        for (name, labels), value in service.samples().items()
        if name == POOL_THREADS.name and 'pool="delivery"' in labels
    }


@pytest.mark.extended
def test_a_size_outlives_the_worker_and_the_service(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--auth=off") as service:
        service.cns("pool", "resize", "delivery", "6")
        pid = service.pids()["worker"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: service.pids()["worker"] != pid)
        wait_until(lambda: threads(service).get(f"worker-{service.pids()['worker']}") == 6)
    with running(data, "--auth=off") as service:
        wait_until(lambda: list(threads(service).values()) == [6], lambda: str(threads(service)))
        assert [report["pools"]["delivery"]["threads"] for report in workers(data).values()] == [6]


@pytest.mark.extended
def test_with_the_service_stopped_a_size_is_noted_down(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--auth=off"):
        pass
    told = cns("pool", "list", "--data", data)
    assert (told.stdout, told.stderr) == ("", "cns: no worker reports\n")
    cns("pool", "resize", "redelivery", "4", "--data", data)
    assert cns("pool", "list", "--data", data).stdout.startswith("redelivery: 4 threads wanted by ")
    with running(data, "--auth=off"):
        wait_until(lambda: [report["pools"]["redelivery"]["threads"] for report in workers(data).values()] == [4])


@pytest.mark.extended
def test_a_size_of_one_worker_ends_with_it(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--auth=off") as service:
        pid = service.pids()["worker"]
        service.cns("pool", "resize", "delivery", "6", "--worker", f"worker-{pid}")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: service.pids()["worker"] != pid)
        wait_until(lambda: threads(service) == {f"worker-{service.pids()['worker']}": 2})


@pytest.mark.extended
def test_a_worker_that_ends_in_order_is_gone_at_once(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--auth=off") as service:
        wait_until(lambda: threads(service))
        pid = service.pids()["worker"]
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: service.events("worker.stopped"))
        assert f"worker-{pid}" not in threads(service)
