"""The words of `cns status` for queues that cannot be counted now."""

from __future__ import annotations

from cns_cli.overview.status import Status, StatusContents, lines


def status(uncounted: int) -> Status:
    contents = StatusContents(5, 12, uncounted, (), 1, 1, 0)
    nothing = {"version": None, "health": None, "open_breakers": None, "quarantined": None, "disk": None}
    return Status(url="u", form="cluster", contents=contents, faults=(), **nothing)


def test_queues_that_cannot_be_counted_are_named() -> None:
    assert [line.text for line in lines(status(2)) if line.title == "queues"] == [
        "5, with 12 messages; 2 cannot be counted now"
    ]
    assert [line.text for line in lines(status(0)) if line.title == "queues"] == ["5, with 12 messages"]
