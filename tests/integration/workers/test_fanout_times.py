"""The duration of a fan-out is counted once its jobs are stored."""

from __future__ import annotations

from cns.delivery import jobs
from cns.delivery.jobs import PublishJob
from tests.integration.workers.drop_fixture import TOPIC, DropFixture
from tests.integration.workers.embedded_context import message


async def test_a_fan_out_is_counted_by_its_queue(drops: DropFixture) -> None:
    await drops.subscribe()
    await drops.put(jobs.PUBLISH_JOBS, PublishJob("m", TOPIC.arn, message(TOPIC)))
    await drops.producer.step()
    assert await drops.port.depth(jobs.ENDPOINT_JOBS) == 1
    counted = {(one.name, dict(one.labels)["queue"]): one.value for one in drops.stats.fanouts.samples()}
    assert counted[("cns_fanout_seconds_count", jobs.PUBLISH_JOBS)] == 1
