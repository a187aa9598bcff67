"""Debug views in the embedded form: the records of queues, and the refusal of views that its engine does not have."""

from __future__ import annotations

import pytest

from cns.client import ApiError, Client


def test_the_records_of_queues(rest: Client, queue_name: str) -> None:
    rest.change_queue(queue_name, {"VisibilityTimeout": "11"})
    found = {one.name: one for one in rest.stored_queues().queues}
    stored = found[queue_name]
    assert (stored.engine, stored.attributes, stored.version) == ("embedded", {"VisibilityTimeout": "11"}, 2)
    later = [one for name, one in found.items() if name > queue_name]
    page = rest.stored_queues(after=queue_name).queues  # other tests have queues as well, more than a page
    assert page[: len(later)] == later and all(one.name > queue_name for one in page)


def test_an_engine_without_buckets(rest: Client, queue_name: str) -> None:
    for view in (rest.pointers, rest.monoton, rest.bucket):
        with pytest.raises(ApiError) as refusal:
            view(queue_name)
        assert (refusal.value.status, refusal.value.code) == (422, "EngineHasNoSuchView")
    assert rest.queue_statistics(queue_name).totals is None
    with pytest.raises(ApiError) as refusal:
        rest.pointers(f"no-{queue_name}")
    assert (refusal.value.status, refusal.value.code) == (404, "QueueDoesNotExist")
