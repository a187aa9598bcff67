"""A process without Redis follows the rows of a bucket that another process writes."""

from __future__ import annotations

from cqs.engines.cluster.cache_contract import CachedMessage, LeaseRequest
from cqs.engines.cluster.ids import MessageLocation
from cqs.engines.cluster.no_redis.visibility import DELETE_MS_MAX, LocalVisibility

SETTLE_MS = 40_000


def test_rows_before_a_seen_one_come_until_it_was_seen_for_long() -> None:
    """Whatever the writer's clock says: its rows' numbers may seem an hour old."""
    visibility = LocalVisibility(0, 0)
    visibility.begin_bucket("b")
    for read_ms, last_seq in ((0, -1), (500, 7), (2_000, 9), (2_500, 12), (41_000, 12), (42_000, 12)):
        visibility.note_read("b", last_seq, read_ms, read_ms - SETTLE_MS)
        assert visibility.buckets["b"] == {42_000: 9}.get(read_ms, -1)
    visibility.note_read("b", 12, 81_000, 81_000 - SETTLE_MS)
    assert visibility.buckets["b"] == 12


def test_a_message_that_is_being_deleted_is_not_found_again() -> None:
    visibility = LocalVisibility(0, 0)
    visibility.begin_bucket("b")
    message = CachedMessage(MessageLocation("b", 1), 0)
    assert visibility.add([message], 0) == [message]
    visibility.begin_delete(message.location, 0)
    assert visibility.add([message], DELETE_MS_MAX - 1) == []
    visibility.end_delete(message.location)
    assert visibility.add([message], 0) == [message]


def test_a_message_whose_delete_was_cut_off_comes_back() -> None:
    visibility = LocalVisibility(0, 0)
    visibility.begin_bucket("b")
    request = LeaseRequest(0, 10, 2 * DELETE_MS_MAX, 0)
    messages = [CachedMessage(MessageLocation("b", number), 0) for number in range(3)]
    visibility.add(messages, 0)
    assert len(visibility.lease(request).leases) == 3
    for at_ms, message in enumerate(messages):
        visibility.begin_delete(message.location, at_ms)
    visibility.end_delete(messages[0].location)
    assert visibility.restore_undeleted(DELETE_MS_MAX) == 0
    assert visibility.restore_undeleted(DELETE_MS_MAX + 1) == 1
    (hidden,) = visibility.in_flight(DELETE_MS_MAX + 1)
    assert hidden[:3] == (messages[1].location, 2 * DELETE_MS_MAX, 1)
    assert not visibility.lease(request._replace(now_ms=DELETE_MS_MAX + 1)).leases
    (lease,) = visibility.lease(request._replace(now_ms=2 * DELETE_MS_MAX)).leases
    assert (lease.key.location, lease.deliveries) == (messages[1].location, 2)
