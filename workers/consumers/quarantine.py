"""Jobs that were begun too often and never finished: set aside to be looked at, instead of harming for ever.

A lease also runs out because a store of ours is away, which is no fault of the job's, and who is left without a store
can write nothing down. So the last lease a job is given is a trial, of which a record is made before it begins, in the
store that it will need. However the trial ends, the record is struck out, unless the job's own run crashed. Who gets
the job again and finds the record knows that the job ended the process, hung, or failed by itself.
"""

from __future__ import annotations

import asyncio
import hashlib

import msgspec
import structlog

from cns.delivery import jobs
from cns.queue_port.contract import LeasedJob, NewJob, QueuePort
from cns_backend.stores.contract import LeaseStore
from cns_common.clock import Clock
from cns_common.errors import CnsError
from cns_common.ids import hex_id
from cns_common.process.kill_points import JOB_ON_TRIAL, kill_point
from workers.stats import Stats

LEASES_MAX = 5
"""A job whose lease ran out so many times without progress is set aside."""
TASK = "trial"
TRIAL_MS = 86_400_000
"""After so long nobody remembers a trial, and there is another."""
STRIKE_OUT_AGAIN_S = 0.5
ID_CHARS = 16

log = structlog.get_logger(__name__)


class SetAside(msgspec.Struct, frozen=True, array_like=True):
    """A job in quarantine: all it takes to look at it, and to put it back."""

    queue: str
    id: str
    group: str
    topic: str
    at_ms: int
    why: str
    body: bytes


class Quarantine:
    def __init__(self, port: QueuePort, leases: LeaseStore, clock: Clock, stats: Stats) -> None:
        self._port = port
        self._leases = leases
        self._clock = clock
        self._stats = stats
        self._striking_out: set[asyncio.Task[None]] = set()

    async def takes(self, queue: str, held: LeasedJob, topic: str, *, expected: int = 0) -> bool:
        """Whether the job was set aside, and is no longer the caller's, whose task is the job's own: how it ends is how
        the job's run ended. `expected` of the job's leases ended well."""
        leases = held.deliveries - expected
        if leases < LEASES_MAX or await self._begin_trial(queue, held):
            return False
        await self.set_aside(queue, held, topic, f"its lease ran out {leases - 1} times")
        return True

    async def set_aside(self, queue: str, held: LeasedJob, topic: str, why: str) -> None:
        item = SetAside(queue, held.id, held.group or topic, topic, self._clock.now_ms(), why, held.body)
        put = NewJob(jobs.QUARANTINE, id_of(item), msgspec.msgpack.encode(item), topic)
        await self._port.settle(queue, [held.handle], [put])
        self._stats.quarantined(queue)
        log.error("job.quarantined", queue=queue, job=held.id, topic=topic, why=why)

    async def _begin_trial(self, queue: str, held: LeasedJob) -> bool:
        """False when one was begun before, and is not struck out."""
        part, holder = f"{queue}/{held.id}", hex_id()
        if not await self._leases.take(TASK, part, holder, TRIAL_MS, self._clock.now_ms()):
            return False
        run = asyncio.current_task()
        assert run is not None, "a job is run in a task"
        run.add_done_callback(lambda ended: self._judge(ended, part, holder))
        kill_point(JOB_ON_TRIAL)
        return True

    def _judge(self, run: asyncio.Task[object], part: str, holder: str) -> None:
        error = None if run.cancelled() else run.exception()
        if error is None or isinstance(error, CnsError):
            striking_out = asyncio.create_task(self._strike_out(part, holder))
            self._striking_out.add(striking_out)
            striking_out.add_done_callback(self._striking_out.discard)

    async def _strike_out(self, part: str, holder: str) -> None:
        """The store may be away, and so may be the job's lease: this needs no lease."""
        while True:
            try:
                await self._leases.take(TASK, part, holder, 0, self._clock.now_ms())  # says whether it came to be
                await self._leases.give_back(TASK, part, holder)
            except CnsError as error:
                log.info("quarantine_trial.removal_failed", job=part, error=str(error))
                await asyncio.sleep(STRIKE_OUT_AGAIN_S)
            else:
                return


def id_of(item: SetAside) -> str:
    """Short enough to be typed, and the same when a job is set aside twice because a process died over it."""
    return hashlib.sha256(f"{item.queue}/{item.id}".encode()).hexdigest()[:ID_CHARS]
