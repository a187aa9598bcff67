"""The rates of `cns top`, from two pages and from events."""

from __future__ import annotations

import json
from pathlib import Path

from cns_cli.overview.metrics import read_page
from cns_cli.overview.rates import EventTail, queue_rates

COUNTS = 'cns_queue_messages_total{{process="{process}",queue="{queue}",action="{action}"}} {n}\n'
HEAD = "# TYPE cns_queue_messages counter\n"


def counts(*rows: tuple[str, str, str, int]) -> str:
    return HEAD + "".join(COUNTS.format(process=p, queue=q, action=a, n=n) for p, q, a, n in rows)


def test_rates_are_summed_over_processes_and_restarts_begin_anew() -> None:
    before = read_page(counts(("api-1", "a", "sent", 100), ("api-2", "a", "sent", 10), ("api-1", "b", "sent", 50)))
    now = read_page(counts(("api-1", "a", "sent", 120), ("api-2", "a", "sent", 30), ("api-1", "b", "sent", 4)))
    rates = {one.queue: one.sent for one in queue_rates(before, now, 10.0)}
    assert rates == {"a": 4.0, "b": 0.4}
    assert [one.queue for one in queue_rates(before, now, 10.0)] == ["a", "b"]


def test_topics_and_endpoints_count_new_events_only(tmp_path: Path) -> None:
    folder = tmp_path / "2026-11-24" / "18"
    folder.mkdir(parents=True)
    segment = folder / "worker-1-000000000001.jsonl.open"

    def write(*events: dict[str, str], torn: str = "") -> None:
        with segment.open("a") as file:
            file.write("".join(json.dumps(event) + "\n" for event in events) + torn)

    published = {"event": "publish.accepted", "topic": "t"}
    delivered = {"event": "delivery.delivered", "topic": "t", "protocol": "https", "endpoint": "shop"}
    failed = {**delivered, "event": "delivery.attempted", "outcome": "failed"}
    first_try = {**failed, "outcome": "delivered"}
    write(published, published)
    tail = EventTail(tmp_path)
    write(published, delivered, failed, failed, first_try, torn='{"event": "publish.acc')
    found = tail.look()
    assert [(one.topic, one.published, one.delivered, one.failed) for one in found.topics(2.0)] == [("t", 0.5, 0.5, 1)]
    assert [(one.endpoint, one.delivered, one.failed) for one in found.endpoints(1.0)] == [("https shop", 1, 2)]
    write(torn='epted", "topic": "t"}\n')
    sealed = segment.rename(folder / "worker-1-000000000001.jsonl")
    assert [one.published for one in tail.look().topics(1.0)] == [1]
    assert sealed.exists() and tail.look().topics(1.0) == []
