"""Named points at which a fault test kills this process: between two steps whose order must survive a crash.

`CNS_KILL_POINT=name:count:file` kills the process when it reaches the point `name` for the count-th time, and makes
`file`, which tells that this happened and prevents it from happening again. Unset, a kill point does nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

VARIABLE = "CNS_KILL_POINT"
PAUSE_S = 0.03
"""The process's other threads run on for this long before it dies, so that a premature answer is sent."""

STORE_COMMIT = "store.commit"  # the transaction is complete, its COMMIT not begun
STORE_COMMITTED = "store.committed"  # durable; no caller has an answer
STORE_CHECKPOINT = "store.checkpoint"  # the log is copied back but for its newest frames
JOB_DELIVERED = "job.delivered"  # endpoints have answered; the job is not settled
JOB_SETTLED = "job.settled"  # the job is settled; its notification still counts it
JOB_REFERENCES_ADDED = "job.references_added"  # the notification counts a job's redeliveries, which are not stored yet
JOB_CONTINUED = "job.continued"  # a job is settled in part: its remaining targets are written and in flight
JOB_DEAD_LETTERED = "job.dead_lettered"  # a dead-letter queue has a message; the job still names its target
JOB_LAST_ATTEMPT = "job.last_attempt"  # the last try of a job that was begun too often is recorded
PUBLISH_RECEIVED = "publish.received"  # a producer has leased a publish job and written nothing
PUBLISH_FANNED_OUT = "publish.fanned_out"  # the notification counts its endpoint jobs, which are not stored yet
LANE_DELIVERED = "lane.delivered"  # the endpoint has answered; the lane's jobs are not settled
LANE_SETTLED = "lane.settled"  # the lane's jobs are settled; their notifications still count them
PUBLISH_SETTLED = "publish.settled"  # a page's jobs and the next cursor are stored; a last one is still counted
FIFO_FANNED_OUT = "fifo.fanned_out"  # as publish.fanned_out, for several publishes to a FIFO topic at once
FIFO_PUBLISHED = "fifo.published"  # their jobs are stored; the notifications still count the publish jobs
FIFO_DELIVERED = "fifo.delivered"  # queues have answered; the jobs of the batch are not settled
FIFO_SETTLED = "fifo.settled"  # the last jobs of the batch are settled; their notifications still count them
REPLAY_SENT = "replay.sent"  # `cns replay` has sent a page, which is not recorded
REPLAY_RECORDED = "replay.recorded"  # the page is recorded
ARCHIVE_WRITTEN = "archive.written"  # Spark has written the new files of `cns pipeline archive`; none is in its place
ARCHIVE_MOVED = "archive.moved"  # a new file is in its place; no manifest names it
BACKUP_COPIED = "backup.copied"  # `cns backup` has copied the files; they do not have their name yet
MIGRATION_TABLES_MADE = "migration.tables_made"  # a store of an earlier format has the new tables; it is not marked
MIGRATION_BACKED_UP = "migration.backed_up"  # a store of an earlier format is copied; nothing of it is changed
RESTORE_BEGUN = "restore.begun"  # the new files of `cns restore` are beside the former ones; the marker is there
RESTORE_CLEARED = "restore.cleared"  # the former log is moved aside
RESTORE_KEY_PLACED = "restore.key_placed"  # the key is the new one, the store the former one
RESTORE_PLACED = "restore.placed"  # all files are the new ones; the marker is still there
MOVE_SOURCE_MARKED = "move.source_marked"  # the source of `cns migrate` serves nobody; its target is not marked yet
MOVE_TARGET_MARKED = "move.target_marked"  # both are marked; nothing is copied
MOVE_KIND_COPIED = "move.kind_copied"  # one kind of record is in the target
MOVE_RECORDS_COPIED = "move.records_copied"  # all records are in the target; no message is
MOVE_QUEUE_COPIED = "move.queue_copied"  # the messages of one queue are in the target
MOVE_FILES_COPIED = "move.files_copied"  # all is in the target; the source is not closed
MOVE_SOURCE_CLOSED = "move.source_closed"  # the source is closed; the target is not open
MOVE_TARGET_OPENED = "move.target_opened"  # the target may serve; the run's notes are still there
ARCHIVE_LISTED = "archive.listed"  # a topic's manifest names its new files; files that they replace are still there
ARCHIVE_CLEANED = "archive.cleaned"  # a file that was replaced is gone


def _nothing(_name: str) -> None:
    """The kill point of a process that no fault test runs."""


def _killer(order: str) -> Callable[[str], None]:
    point, count, path = order.split(":", 2)
    left = int(count)

    def count_down(name: str) -> None:
        nonlocal left
        if name == point:
            left -= 1
            if left == 0 and not os.path.exists(path):  # noqa: PTH110  # loaded by every process: no pathlib
                threading.Event().wait(PAUSE_S)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
                os.kill(os.getpid(), signal.SIGKILL)

    return count_down


_order = os.environ.get(VARIABLE)  # noqa: TID251  # a test's order, not a setting
IS_ARMED = _order is not None
kill_point: Callable[[str], None] = _nothing if _order is None else _killer(_order)
