"""The state of the service in three colours, with the reasons: what `/health` and `/ready` show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from cns_backend.clock_health import clock_difference, why_idle
from cns_backend.sites.decision import SiteStatus
from cns_backend.stores.contract import ProcessReport, ServiceState
from cns_common.durations import HOUR_S
from cns_common.metrics.catalogue import (
    AUDIT_REFUSED,
    CLOCK_OFFSET_SECONDS,
    CLOCK_RECEIVES_REFUSED,
    DROPPED_RECENTLY,
    EVENT_SEGMENTS_UNREAD_LEFT_SECONDS,
    EVENT_SEGMENTS_UNREAD_SHARE,
    QUARANTINE_JOBS,
    REDIS_REACHED_BY,
    REDIS_UP,
)
from cns_common.metrics.model import Sample
from cns_common.process.supervisor import STATUS_FILE, read_status
from cns_common.worker_roles import ALL_ROLES, WorkerRole, lacking_roles

UNREAD_SHARE_WARNED = 0.5
"""Health is yellow when unread event segments are this near to their removal."""
CLOCK_OFFSET_WARNED_S = 0.25
NAMED_MAX = 3
NOT_DONE = {
    WorkerRole.PRODUCER: "no worker with the role producer reports: publishes are not fanned out",
    WorkerRole.CONSUMER: "no worker with the role consumer reports: nothing is delivered",
}
"""The roles without which nothing is delivered, and what health says without a worker of one."""
NOT_MAINTAINED = "no worker with the role maintenance reports: nothing that expired is removed, no message is moved"


class ServiceHealth(msgspec.Struct, frozen=True):
    """red: a person must act. yellow: jobs are in quarantine, messages were dropped, or a part is restarted or slower.
    green: all is well."""

    status: Literal["green", "yellow", "red"]
    ready: bool
    reasons: tuple[str, ...] = ()
    processes: tuple[dict[str, Any], ...] = ()
    workers: tuple[dict[str, Any], ...] = ()
    site: SiteStatus | None = None
    """Absent where there is only one."""

    def to_dict(self, *, names: bool) -> dict[str, Any]:
        """Only the colour and the readiness without `names`: reasons have names in them, too."""
        if not names:
            return {"status": self.status, "ready": self.ready}
        plain: dict[str, Any] = msgspec.to_builtins(self)
        if self.site is None:
            del plain["site"]
        return plain


def judge_health(
    state: ServiceState, data: Path, own: Sequence[Sample] = (), site: SiteStatus | None = None
) -> ServiceHealth:
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
    roles = {report.process: report.roles or ALL_ROLES for report in workers}
    idle = {report.process: reason for report in workers if (reason := why_idle(report.samples))}
    lacking = lacking_roles(tuple(of for process, of in roles.items() if process not in idle))
    are_needed = len(lacking) > len(lacking_roles(tuple(roles.values())))
    (red if are_needed else yellow).extend(f"{process} {reason}" for process, reason in sorted(idle.items()))
    if not workers:
        red.append("no worker reports: nothing is delivered")
    else:
        red += [NOT_DONE[role] for role in lacking if role in NOT_DONE]
        yellow += [NOT_MAINTAINED for role in lacking if role not in NOT_DONE]
    for report in workers:
        red += [f"the worker's {loop} loop fails" for loop in report.failing]
        if any(sample.name == QUARANTINE_JOBS.name and sample.value for sample in report.samples):
            yellow.append("jobs are in quarantine")
    yellow += _drops(workers)
    reported = [*own, *[sample for report in state.reports for sample in report.samples]]
    if any(sample.name == AUDIT_REFUSED.name and sample.value for sample in reported):
        yellow.append("audit events cannot be written: calls to queues with Audit=on are refused")
    yellow += _redis_lost(own)
    yellow += _clock_offset(own)
    yellow += _unread_events([*own, *[sample for report in workers for sample in report.samples]])
    if state.clock_warning:
        yellow.append(state.clock_warning)
    yellow += _site_alone(site)
    return ServiceHealth(
        "red" if red else "yellow" if yellow else "green",
        ready=not NOT_DONE.keys() & lacking and not state.store_failure,
        reasons=(*red, *yellow),
        processes=tuple({"name": p.name, "pid": p.pid, "restarts": p.restarts} for p in processes),
        workers=tuple({"process": process, "roles": list(roles[process])} for process in sorted(roles)),
        site=site,
    )


def _drops(workers: Sequence[ProcessReport]) -> list[str]:
    """A reason if any worker dropped messages within the last minutes."""
    dropped = sum(one.value for report in workers for one in report.samples if one.name == DROPPED_RECENTLY.name)
    if not dropped:
        return []
    return [f"messages were dropped in the last 10 minutes: {dropped:.0f}; `cns doctor` says of which topics, and why"]


def _site_alone(site: SiteStatus | None) -> list[str]:
    if site is None or (site.other_reachable and not site.activated_alone):
        return []
    return [f"site {site.other} does not answer: what is accepted now is at site {site.site} only"]


def _redis_lost(own: Sequence[Sample]) -> list[str]:
    """A reason for each Redis server that processes do not all reach, and one if another does not answer."""
    lost = {dict(sample.labels)["server"] for sample in own if sample.name == REDIS_UP.name and not sample.value}
    peers: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for sample in own:
        if sample.name == REDIS_REACHED_BY.name:
            of = dict(sample.labels)
            answer = f"server {of['run']}" if sample.value else "no answer"
            peers[of["server"]][f"{of['address']} ({answer})"].append(of["peer"])
    reasons = ["Redis does not answer"] if lost - peers.keys() else []
    for server, places in sorted(peers.items()):
        told = [f"{_some(sorted(names))} at {place}" for place, names in sorted(places.items())]
        reasons.append(f"the processes do not reach one Redis as {server}, compare CNS_REDIS: {'; '.join(told)}")
    return [f"{reason}: without it messages are given out more slowly" for reason in reasons]


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _clock_offset(own: Sequence[Sample]) -> list[str]:
    """A reason if this machine's clock differs from Cassandra's, or did until it was set just now."""
    values = {sample.name: sample.value for sample in own}
    seconds = values.get(CLOCK_OFFSET_SECONDS.name, 0.0)
    reason = f"this machine's {clock_difference(seconds)}"
    if values.get(CLOCK_RECEIVES_REFUSED.name):
        waits = "this machine's clock was set back, and message time waits until it catches up"
        return [f"{reason if abs(seconds) >= CLOCK_OFFSET_WARNED_S else waits}: receives are refused"]
    return [reason] if abs(seconds) >= CLOCK_OFFSET_WARNED_S else []


def _unread_events(samples: Sequence[Sample]) -> list[str]:
    """A reason if unread event segments of any machine are half-way to their removal."""
    share = max([sample.value for sample in samples if sample.name == EVENT_SEGMENTS_UNREAD_SHARE.name], default=0.0)
    if share < UNREAD_SHARE_WARNED:
        return []
    left_s = min([sample.value for sample in samples if sample.name == EVENT_SEGMENTS_UNREAD_LEFT_SECONDS.name])
    when = f"in about {left_s / 3600:.1f} h" if left_s >= HOUR_S else f"in about {left_s // 60:.0f} min"
    return [f"events that no ingest has read are removed {when}: run `cns pipeline ingest`"]
