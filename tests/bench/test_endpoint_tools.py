"""The tools of `isolation` and `fanout`: errors in the schedule, the outcomes or the endpoints would go unnoticed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lab.bench.sections.fanout import figures_of
from lab.bench.sections.isolation import RUNS, counts_of, memory_use, topics_in_turn
from lab.bench.sections.publish import BARS, Bar
from lab.harness.waiting import PATIENCE_S
from lab.load.endpoint_process import EndpointProcess, endpoint_process
from lab.load.endpoints import PORTS_PER_KIND, Arrival, Kind
from lab.load.pacing import planned_ns
from lab.load.wire import LoadError, connect
from lab.measure.figures import NS_PER_S, Figures
from lab.measure.outcomes import AcceptedPublish, Outcomes, dropped_in, outcomes_of

KINDS = {Kind.HEALTHY: 2, Kind.REFUSED: 1, Kind.HANGING: 1, Kind.SLOW: 1, Kind.FAILING: 1}


# -- the plan ---------------------------------------------------------------------------------------------------------


def test_publishes_are_planned_at_even_distances() -> None:
    assert planned_ns(500.0, 0.01) == [0, 2_000_000, 4_000_000, 6_000_000, 8_000_000]


def test_all_topics_get_equally_many_publishes() -> None:
    order = topics_in_turn(2_500, 1_000, seed=1)
    assert set(Counter(order).values()) == {2, 3}
    assert order[:1_000] == order[1_000:2_000] != sorted(order[:1_000])
    assert order == topics_in_turn(2_500, 1_000, seed=1) != topics_in_turn(2_500, 1_000, seed=2)


@pytest.mark.parametrize(
    ("run", "topics", "counts"),
    [
        ("all healthy", 1_000, [1_000]),
        ("half failing: refused, timing out, slow, 500", 1_000, [500, 125, 125, 125, 125]),
        ("half failing: refused, timing out, slow, 500", 11, [5, 2, 2, 1, 1]),
        ("half failing: all timing out", 1_000, [500, 500]),
    ],
)
def test_failing_endpoints_are_in_equal_parts(run: str, topics: int, counts: list[int]) -> None:
    found = counts_of(RUNS[run], topics)
    assert list(found.values()) == counts
    assert list(found) == [Kind.HEALTHY, *RUNS[run]]


# -- the account ------------------------------------------------------------------------------------------------------

ACCEPTED = {1: AcceptedPublish("id-1", 7), 2: AcceptedPublish("id-2", 7), 3: AcceptedPublish("id-3", 8)}


def _arrivals_of(*arrivals: tuple[int, int]) -> list[Arrival]:
    return [Arrival(endpoint, number, 0) for number, endpoint in arrivals]


@pytest.mark.parametrize(
    ("arrivals", "letters", "drops", "expected"),
    [
        ([(1, 7), (2, 7), (3, 8)], [], [], (3, 0, 0, {}, 0, 0)),
        ([(1, 7)], [2], ["id-3"], (1, 1, 1, {}, 0, 0)),
        ([(1, 7)], [], [], (1, 0, 0, {7: 1, 8: 1}, 0, 0)),
        ([], [], [], (0, 0, 0, {7: 2, 8: 1}, 0, 0)),
        ([(1, 7), (1, 7), (2, 7)], [2], ["id-3", "id-3"], (2, 0, 1, {}, 3, 0)),
        ([(1, 7), (2, 7), (3, 7)], [], [], (2, 0, 0, {8: 1}, 0, 1)),
        ([(1, 7), (2, 7), (3, 8), (4, 8)], [], [], (3, 0, 0, {}, 0, 1)),
        ([(1, 7), (2, 7), (3, 8)], [9], ["id-9"], (3, 0, 0, {}, 0, 0)),
    ],
    ids=["all", "each end", "two lost", "all lost", "repeated", "at another's", "invented", "what is nobody's"],
)
def test_every_accepted_message_has_an_outcome_or_is_lost(
    arrivals: list[tuple[int, int]],
    letters: list[int],
    drops: list[str],
    expected: tuple[int, int, int, dict[int, int], int, int],
) -> None:
    delivered, dead_lettered, dropped, lost, repeated, misdelivered = expected
    outcomes = outcomes_of(ACCEPTED, _arrivals_of(*arrivals), letters, drops)
    assert outcomes == Outcomes(3, delivered, dead_lettered, dropped, lost, repeated, misdelivered)
    assert (
        outcomes.delivered + outcomes.dead_lettered + outcomes.dropped + sum(outcomes.lost.values())
        == outcomes.accepted
    )
    assert outcomes.complete == (not lost and not misdelivered)


def test_drops_are_read_from_sealed_and_open_segments(tmp_path: Path) -> None:
    (tmp_path / "2026-11-21" / "20").mkdir(parents=True)
    lines = [
        '{"version":1,"event":"notification.dropped","message_id":"a","cause":"spent:status"}',
        '{"version":1,"event":"delivery.delivered","message_id":"b"}',
    ]
    (tmp_path / "2026-11-21" / "20" / "one.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "2026-11-21" / "20" / "two.jsonl.open").write_text(lines[0] + "\n")
    (tmp_path / "2026-11-21" / "20" / "three.jsonl.new").write_text(lines[0] + "\n")
    assert dropped_in(tmp_path) == ["a", "a"]


# -- figures ----------------------------------------------------------------------------------------------------------


def test_a_rate_is_from_the_first_arrival_and_from_the_start() -> None:
    arrivals = [Arrival(n, 1, NS_PER_S + n * NS_PER_S // 10) for n in range(11)]
    found = figures_of("service", "raw", arrivals, 0, (0.011, 0.0011))
    assert found[2:6] == (11, 1_000.0, 10.0, 5.5)
    assert (found.sender_us, found.endpoints_us) == pytest.approx((1_000.0, 100.0))


def test_memory_use_has_start_middle_peak_and_end() -> None:
    assert memory_use([10, 20, 40, 90, 30]) == "10, 40, **90**, 30"


@pytest.mark.parametrize(
    ("bar", "met"),
    [
        (Bar(), True),
        (Bar(per_s=100), True),
        (Bar(per_s=101), False),
        (Bar(p50_ms=4, p99_ms=50), True),
        (Bar(p50_ms=3), False),
        (Bar(p99_ms=49), False),
        (Bar(per_s=100, cpu_s=0.9), True),
        (Bar(per_s=100, cpu_s=0.8), False),
    ],
)
def test_a_bar_is_met_if_all_its_limits_are(bar: Bar, met: bool) -> None:
    figures = Figures(
        workload="publish → HTTP, raw",
        server="service",
        connections=1,
        units=100,
        seconds=1.0,
        per_s=100.0,
        p50_ms=4.0,
        p95_ms=9.0,
        p99_ms=50.0,
        mean_ms=5.0,
        server_us=900.0,  # 0.9 s per thousand messages
        generator_us=0.0,
        others_share=0.0,
    )
    assert bar.is_met(figures) == met
    assert all(str(each) for each in BARS.values())


# -- the endpoints ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def endpoints() -> AsyncIterator[EndpointProcess]:
    async with endpoint_process(KINDS) as endpoints:
        yield endpoints


def _place(endpoints: EndpointProcess, kind: Kind) -> tuple[int, int]:
    """The number and the port of an endpoint of this kind."""
    endpoint = endpoints.kinds.index(kind)
    return endpoint, int(endpoints.url(endpoint).split(":")[2].partition("/")[0])


async def _post(endpoints: EndpointProcess, kind: Kind, body: bytes) -> bytes:
    endpoint, port = _place(endpoints, kind)
    (lane,) = await connect(port, 1)
    try:
        return await lane.ask(b"POST /e/%d HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (endpoint, len(body), body))
    finally:
        lane.close()


async def test_endpoints_fail_by_their_kind_and_recover(endpoints: EndpointProcess) -> None:
    for kind in KINDS:
        await _post(endpoints, kind, b"number=1 of all")
    assert (await endpoints.status()).accepted == len(KINDS)
    await endpoints.fail()
    await _post(endpoints, Kind.HEALTHY, b"number=2 rest")
    with pytest.raises(ConnectionRefusedError):
        await _post(endpoints, Kind.REFUSED, b"number=2 rest")
    with pytest.raises(LoadError, match="500"):
        await _post(endpoints, Kind.FAILING, b"number=2 rest")
    waiting = [asyncio.ensure_future(_post(endpoints, kind, b"number=2 rest")) for kind in (Kind.HANGING, Kind.SLOW)]
    while (await endpoints.status()).open < len(waiting):
        await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    await endpoints.recover()
    for hung_up in waiting:
        with pytest.raises(LoadError, match="hung up"):
            await asyncio.wait_for(hung_up, PATIENCE_S)
    for kind in KINDS:
        await _post(endpoints, kind, b"number=3 rest")
        await _post(endpoints, kind, b"number=3 again")
    assert (await endpoints.status()).accepted == 2 * len(KINDS) + 1
    arrivals = await endpoints.arrivals()
    assert Counter(arrival.number for arrival in arrivals) == {1: len(KINDS), 2: 1, 3: 2 * len(KINDS)}
    assert await endpoints.last_body() == b"number=3 again"


async def test_a_slow_endpoint_answers_late_and_notes_the_time_of_the_request(
    endpoints: EndpointProcess,
) -> None:
    await endpoints.fail()
    began_ns = time.perf_counter_ns()
    await _post(endpoints, Kind.SLOW, b"number=1 rest")
    took_ns = time.perf_counter_ns() - began_ns
    (arrival,) = await endpoints.arrivals()
    assert 0 < arrival.at_ns - began_ns < took_ns / 2


async def test_endpoints_keep_the_tokens_of_confirmations(endpoints: EndpointProcess) -> None:
    await _post(endpoints, Kind.SLOW, b'{"Type" : "SubscriptionConfirmation", "Token" : "t0k"}')
    endpoint, _ = _place(endpoints, Kind.SLOW)
    assert (await endpoints.status()).tokens == [(endpoint, "t0k")]
    assert (await endpoints.status()).tokens == []


async def test_endpoints_of_a_kind_share_a_few_ports() -> None:
    async with endpoint_process({Kind.HEALTHY: 3 * PORTS_PER_KIND, Kind.REFUSED: 1}) as endpoints:
        urls = [endpoints.url(endpoint) for endpoint in range(len(endpoints.kinds))]
    assert len(set(urls)) == 3 * PORTS_PER_KIND + 1
    assert len({url.rpartition("/e/")[0] for url in urls}) == PORTS_PER_KIND + 1
