"""Named places where a fault test lets this process die: between two steps whose order a crash must not betray.

`CNS_KILL_POINT=name:count:file` kills the process when it passes the point `name` for the count-th time, and leaves
`file` behind, which says that it happened and keeps it from happening again. Unset, passing a point does nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

VARIABLE = "CNS_KILL_POINT"
PAUSE_S = 0.03
"""Time for this process's other threads before it dies: an answer that was given too early gets out."""

STORE_COMMIT = "store.commit"  # the transaction is whole, its COMMIT not begun
STORE_COMMITTED = "store.committed"  # durable, nobody has an answer
STORE_CHECKPOINT = "store.checkpoint"  # the log is copied but for its newest part
JOB_DELIVERED = "job.delivered"  # endpoints have answered, the job is not settled
JOB_SETTLED = "job.settled"  # the job is settled, its notification still counts it
JOB_REFERRED = "job.referred"  # the notification counts the redeliveries of a job, which are not there yet
JOB_CONTINUED = "job.continued"  # some of a job is settled: what remains is written into it, its sends are under way
JOB_BURIED = "job.buried"  # a dead-letter queue has a message, the job still names its target
JOB_ON_TRIAL = "job.on_trial"  # it is written down that a job begun too often is tried a last time
PUBLISH_TAKEN = "publish.taken"  # a producer holds a publish job, and has written nothing
PUBLISH_FANNED_OUT = "publish.fanned_out"  # the notification counts its endpoint jobs, which are not there yet
LANE_DELIVERED = "lane.delivered"  # the endpoint has answered, the lane's jobs are not settled
LANE_SETTLED = "lane.settled"  # they are settled, their notifications still count them
PUBLISH_SETTLED = "publish.settled"  # a page's jobs and what follows are there, its reference is still counted
FIFO_FANNED_OUT = "fifo.fanned_out"  # the same, of publishes to a FIFO topic: of several at once
FIFO_PUBLISHED = "fifo.published"  # those are there, the notifications of their publish jobs still count these
FIFO_DELIVERED = "fifo.delivered"  # queues have answered, the jobs of the run are not settled
FIFO_SETTLED = "fifo.settled"  # they are settled, their notifications still count them
POINTS = (
    STORE_COMMIT,
    STORE_COMMITTED,
    STORE_CHECKPOINT,
    JOB_DELIVERED,
    JOB_SETTLED,
    JOB_REFERRED,
    JOB_CONTINUED,
    JOB_BURIED,
    JOB_ON_TRIAL,
    PUBLISH_TAKEN,
    PUBLISH_FANNED_OUT,
    PUBLISH_SETTLED,
    LANE_DELIVERED,
    LANE_SETTLED,
    FIFO_FANNED_OUT,
    FIFO_PUBLISHED,
    FIFO_DELIVERED,
    FIFO_SETTLED,
)


def _nothing(_name: str) -> None:
    """No fault test runs."""


def _killer(order: str) -> Callable[[str], None]:
    point, count, path = order.split(":", 2)
    left = int(count)

    def count_down(name: str) -> None:
        nonlocal left
        if name == point:
            left -= 1
            if left == 0:
                threading.Event().wait(PAUSE_S)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
                os.kill(os.getpid(), signal.SIGKILL)

    return _nothing if os.path.exists(path) else count_down  # noqa: PTH110  # loaded by every process: no pathlib


kill_point: Callable[[str], None] = _killer(os.environ[VARIABLE]) if VARIABLE in os.environ else _nothing
