"""Debug views in the embedded form: the records of queues, and the refusal of views that its engine does not have."""

from __future__ import annotations

from cns.client import Client
from tests.acceptance.rest.refusals import refusal_of


def test_the_records_of_queues(rest: Client, queue_name: str) -> None:
    rest.change_queue(queue_name, {"VisibilityTimeout": "11"})
    stored, *later = rest.stored_queues(after=queue_name[:-1]).queues
    assert (stored.name, stored.engine) == (queue_name, "embedded")
    assert (stored.attributes, stored.version) == ({"VisibilityTimeout": "11"}, 2)
    page = rest.stored_queues(after=queue_name).queues
    assert page[: len(later)] == later and all(one.name > queue_name for one in page)


def test_an_engine_without_buckets(rest: Client, queue_name: str) -> None:
    for view in (rest.pointers, rest.monoton, rest.bucket):
        assert refusal_of(view, queue_name) == (422, "EngineHasNoSuchView")
    assert rest.queue_statistics(queue_name).totals is None
    assert refusal_of(rest.pointers, f"no-{queue_name}") == (404, "QueueDoesNotExist")
