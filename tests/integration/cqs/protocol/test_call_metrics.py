"""The metrics of calls: by operation, from 0, and in no more series than there are operations."""

from __future__ import annotations

from cns_common.aws.front_door import CALL_BOUNDS_S
from tests.integration.cqs.door import Door


def counted(door: Door, name: str) -> dict[tuple[str, ...], float]:
    """The values of the samples of a name, by the values of their labels."""
    return {
        tuple(value for _, value in sample.labels): sample.value
        for sample in door.front.samples()
        if sample.name == name
    }


async def test_response_times_are_counted_by_operation(door: Door) -> None:
    url = await door.queue("q")
    for n in range(3):
        assert (await door.json("SendMessage", QueueUrl=url, MessageBody=f"{n}")).status == 200
    assert (await door.json("ReceiveMessage", QueueUrl=url)).status == 200
    assert (await door.json("SendMessage", QueueUrl=url)).status == 400
    times = counted(door, "cns_api_call_seconds_count")
    assert times == {("sqs", "CreateQueue"): 1, ("sqs", "SendMessage"): 3, ("sqs", "ReceiveMessage"): 1}
    buckets = [
        value for labels, value in counted(door, "cns_api_call_seconds_bucket").items() if "SendMessage" in labels
    ]
    assert buckets == sorted(buckets) and len(buckets) == len(CALL_BOUNDS_S) + 1 and buckets[-1] == 3
    assert 0 < counted(door, "cns_api_call_seconds_sum")[("sqs", "SendMessage")] < 60


async def test_counters_begin_at_0_and_callers_add_no_series(door: Door) -> None:
    before = counted(door, "cns_api_calls_total")
    assert {("SendMessage",), ("ReceiveMessage",), ("GetCallerIdentity",)} < set(before)
    assert set(before.values()) == {0}
    for n in range(30):
        assert (await door.json(f"Unknown{n}")).status == 400
        assert (await door.json("SendMessage", QueueUrl=f"q{n}", MessageBody="m")).status == 400
    assert set(counted(door, "cns_api_calls_total")) == set(before)
    assert counted(door, "cns_api_call_failures_total").keys() == {
        ("?", "InvalidAction"),
        ("SendMessage", "QueueDoesNotExist"),
    }
    assert counted(door, "cns_api_call_seconds_count") == {}
