"""The kill points of attempts and settlements, which a fault test arms: see `cns_common.process.kill_points`."""

from __future__ import annotations

from cns.delivery import jobs
from cns.delivery.observers.contract import AttemptObserver, ObservedJob
from cns.delivery.target import Target
from cns_common.process import kill_points as points
from cns_common.process.kill_points import kill_point

_OF_JOBS = (points.JOB_DELIVERED, points.JOB_REFERENCES_ADDED, points.JOB_SETTLED, points.JOB_CONTINUED)
_BY_QUEUE = {
    jobs.PUBLISH_JOBS: ("", points.PUBLISH_FANNED_OUT, points.PUBLISH_SETTLED, points.PUBLISH_SETTLED),
    jobs.FIFO_PUBLISH_JOBS: ("", points.FIFO_FANNED_OUT, points.FIFO_PUBLISHED, ""),
    jobs.ENDPOINT_JOBS: _OF_JOBS,
    jobs.REDELIVERY: _OF_JOBS,
    jobs.LANES: (points.LANE_DELIVERED, "", points.LANE_SETTLED, points.LANE_SETTLED),
    jobs.FIFO_ENDPOINT_JOBS: (points.FIFO_DELIVERED, "", points.FIFO_SETTLED, ""),
}
"""Before a settlement, after its references, after it with a job that is done, and without one."""


class KillPoints(AttemptObserver):
    def dead_lettered(self, job: ObservedJob, target: Target, cause: str, at_ms: int) -> None:
        kill_point(points.JOB_DEAD_LETTERED)

    def before_settle(self, queue: str) -> None:
        kill_point(_BY_QUEUE[queue][0])

    def after_references(self, queue: str) -> None:
        kill_point(_BY_QUEUE[queue][1])

    def after_settle(self, queue: str, is_done: bool) -> None:
        kill_point(_BY_QUEUE[queue][2 if is_done else 3])


ARMED = (KillPoints(),) if points.IS_ARMED else ()
"""The first of the observers: a kill comes before what the others write."""
