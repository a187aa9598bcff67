"""The state of the service in three colours, with the reasons: what `/health` and `/ready` show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from cns_backend.stores.contract import ServiceState
from cns_common.metrics.catalogue import QUARANTINE_JOBS, REDIS_UP
from cns_common.metrics.model import Sample
from cns_common.process.supervisor import STATUS_FILE, read_status


class Health(msgspec.Struct, frozen=True):
    """red: a person must act. yellow: jobs are in quarantine, or a part is restarted or slower. green: all is well."""

    status: Literal["green", "yellow", "red"]
    ready: bool
    reasons: tuple[str, ...] = ()
    processes: tuple[dict[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def judge_health(state: ServiceState, data: Path, own: Sequence[Sample] = ()) -> Health:
    """Red when nothing can be stored, nothing is delivered, or a process crashes in a loop.

    `data` is the data directory, where the supervisor writes its children's states; `own` are this process's metrics.
    """
    red = [reason for reason in (state.store_failure, state.store_full) if reason]
    yellow: list[str] = []
    processes = read_status(data / STATUS_FILE)
    for process in processes:
        if process.crash_loop:
            red.append(f"{process.name} dies again and again")
        elif process.restarts:
            yellow.append(f"{process.name} was restarted {process.restarts} times")
    workers = [report for report in state.reports if report.role == "worker"]
    if not workers:
        red.append("no worker reports: nothing is delivered")
    for report in workers:
        red += [f"the worker's {loop} loop fails" for loop in report.failing]
        if any(sample.name == QUARANTINE_JOBS.name and sample.value for sample in report.samples):
            yellow.append("jobs are in quarantine")
    if any(sample.name == REDIS_UP.name and not sample.value for sample in own):
        yellow.append("Redis does not answer: without it messages are given out more slowly")
    if state.clock_warning:
        yellow.append(state.clock_warning)
    return Health(
        "red" if red else "yellow" if yellow else "green",
        ready=bool(workers) and not state.store_failure,
        reasons=(*red, *yellow),
        processes=tuple({"name": p.name, "pid": p.pid, "restarts": p.restarts} for p in processes),
    )
