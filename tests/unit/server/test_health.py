"""The status of `/health`, by the store host's report."""

from __future__ import annotations

from pathlib import Path

import pytest

from cns_backend.stores.contract import ProcessReport, ServiceState
from cns_common.metrics.catalogue import (
    CLOCK_OFFSET_SECONDS,
    CLOCK_RECEIVES_REFUSED,
    DROPPED_RECENTLY,
    EVENT_SEGMENTS_UNREAD_LEFT_SECONDS,
    EVENT_SEGMENTS_UNREAD_SHARE,
    REDIS_REACHED_BY,
    REDIS_UP,
)
from cns_server.health import judge_health

WORKER = ProcessReport("worker", "worker", (), ())
NO_ROLE = "no worker with the role {} reports"
FANNED = "publishes are not fanned out"
SENT = "nothing is delivered"
KEPT = "nothing that expired is removed, no message is moved"


def of(*roles: str) -> ProcessReport:
    return ProcessReport(f"worker-{roles[0]}", "worker", (), (), roles=roles)


@pytest.mark.parametrize(
    ("state", "status", "ready", "reason"),
    [
        (ServiceState("", (WORKER,), ()), "green", True, ""),
        (ServiceState("", (WORKER,), (), store_full="the disk is full"), "red", True, "the disk is full"),
        (ServiceState("it has failed", (WORKER,), ()), "red", False, "it has failed"),
        (ServiceState("", (WORKER,), (), clock_warning="the clock"), "yellow", True, "the clock"),
        (ServiceState("", (), ()), "red", False, "no worker reports: nothing is delivered"),
        (ServiceState("", (of("producer"), of("consumer", "maintenance")), ()), "green", True, ""),
        (
            ServiceState("", (of("consumer", "maintenance"),), ()),
            "red",
            False,
            f"{NO_ROLE.format('producer')}: {FANNED}",
        ),
        (ServiceState("", (of("producer", "maintenance"),), ()), "red", False, f"{NO_ROLE.format('consumer')}: {SENT}"),
        (
            ServiceState("", (of("producer", "consumer"),), ()),
            "yellow",
            True,
            f"{NO_ROLE.format('maintenance')}: {KEPT}",
        ),
    ],
)
def test_colours(tmp_path: Path, state: ServiceState, status: str, ready: bool, reason: str) -> None:
    health = judge_health(state, tmp_path)
    assert (health.status, health.ready, "; ".join(health.reasons)) == (status, ready, reason)


@pytest.mark.parametrize(
    ("share", "left_s", "reason"),
    [
        (0.49, 7_200, ""),
        (0.5, 9_000, "events that no ingest has read are removed in about 2.5 h: run `cns pipeline ingest`"),
        (1.0, 130, "events that no ingest has read are removed in about 2 min: run `cns pipeline ingest`"),
    ],
)
@pytest.mark.parametrize("of_worker", [True, False])
def test_unread_events_near_their_removal(
    tmp_path: Path, share: float, left_s: float, reason: str, of_worker: bool
) -> None:
    samples = (EVENT_SEGMENTS_UNREAD_SHARE.sample(share), EVENT_SEGMENTS_UNREAD_LEFT_SECONDS.sample(left_s))
    worker = ProcessReport("worker", "worker", (), samples if of_worker else ())
    health = judge_health(ServiceState("", (worker,), ()), tmp_path, () if of_worker else samples)
    assert (health.status, "; ".join(health.reasons)) == ("yellow" if reason else "green", reason)


@pytest.mark.parametrize(
    ("offset_s", "reason"),
    [
        (-0.2, ""),
        (0.3, "this machine's clock is 0.3 s ahead of Cassandra's"),
        (-5.0, "this machine's clock is 5.0 s behind Cassandra's"),
    ],
)
def test_a_wrong_clock(tmp_path: Path, offset_s: float, reason: str) -> None:
    health = judge_health(ServiceState("", (WORKER,), ()), tmp_path, [CLOCK_OFFSET_SECONDS.sample(offset_s)])
    assert (health.status, "; ".join(health.reasons)) == ("yellow" if reason else "green", reason)


@pytest.mark.parametrize(
    ("offset_s", "reason"),
    [
        (-5.1, "this machine's clock is 5.1 s behind Cassandra's"),
        (0.1, "this machine's clock was set back, and message time waits until it catches up"),
    ],
)
def test_receives_are_refused_when_the_engine_says_so(tmp_path: Path, offset_s: float, reason: str) -> None:
    samples = [CLOCK_OFFSET_SECONDS.sample(offset_s), CLOCK_RECEIVES_REFUSED.sample(1)]
    health = judge_health(ServiceState("", (WORKER,), ()), tmp_path, samples)
    assert (health.status, *health.reasons) == ("yellow", f"{reason}: receives are refused")


@pytest.mark.parametrize(
    ("reached", "reason"),
    [
        ([], "Redis does not answer"),
        (
            [("h/1", "redis://a", "f00d"), ("h/2", "redis://b", "")],
            "the processes do not reach one Redis as redis, compare CNS_REDIS:"
            " h/1 at redis://a (server f00d); h/2 at redis://b (no answer)",
        ),
        (
            [("h/9", "redis://b", "beef"), *[(f"h/{n}", "redis://a", "f00d") for n in (5, 4, 3, 2, 1)]],
            "the processes do not reach one Redis as redis, compare CNS_REDIS:"
            " h/1, h/2, h/3 and 2 more at redis://a (server f00d); h/9 at redis://b (server beef)",
        ),
    ],
)
def test_a_lost_redis(tmp_path: Path, reached: list[tuple[str, str, str]], reason: str) -> None:
    samples = [
        REDIS_UP.sample(0, server="redis"),
        *[
            REDIS_REACHED_BY.sample(bool(run), server="redis", peer=peer, address=address, run=run)
            for peer, address, run in reached
        ],
    ]
    health = judge_health(ServiceState("", (WORKER,), ()), tmp_path, samples)
    assert (health.status, *health.reasons) == (
        "yellow",
        f"{reason}: without it messages are given out more slowly",
    )


@pytest.mark.parametrize(
    ("dropped", "reasons"),
    [
        ((0, 0), ()),
        ((2, 1), ("messages were dropped in the last 10 minutes: 3; `cns doctor` says of which topics, and why",)),
    ],
)
def test_messages_that_any_worker_dropped(tmp_path: Path, dropped: tuple[int, int], reasons: tuple[str, ...]) -> None:
    workers = [ProcessReport(f"worker-{n}", "worker", (), (DROPPED_RECENTLY.sample(n),)) for n in dropped]
    health = judge_health(ServiceState("", tuple(workers), ()), tmp_path)
    assert (health.status, health.reasons) == ("yellow" if reasons else "green", reasons)


def _on_a_wrong_clock(*roles: str) -> ProcessReport:
    samples = (CLOCK_OFFSET_SECONDS.sample(-7.25), CLOCK_RECEIVES_REFUSED.sample(1))
    return ProcessReport("worker-wrong", "worker", (), samples, roles=roles)


@pytest.mark.parametrize(
    ("others", "roles", "status", "ready"),
    [
        ((WORKER,), (), "yellow", True),
        ((of("producer", "consumer"),), ("maintenance",), "red", True),
        ((of("producer", "maintenance"),), ("consumer", "maintenance"), "red", False),
        ((), (), "red", False),
    ],
)
def test_a_worker_whose_clock_is_wrong(
    tmp_path: Path, others: tuple[ProcessReport, ...], roles: tuple[str, ...], status: str, ready: bool
) -> None:
    """Health is red once no other worker does its work."""
    health = judge_health(ServiceState("", (*others, _on_a_wrong_clock(*roles)), ()), tmp_path)
    assert (health.status, health.ready) == (status, ready)
    assert health.reasons[0] == "worker-wrong delivers nothing: its machine's clock is 7.2 s behind Cassandra's"
    assert {worker["process"] for worker in health.workers} == {"worker-wrong", *(other.process for other in others)}
