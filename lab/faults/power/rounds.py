"""A power-loss round: record a load, cut the power at positions of the log, reopen each disk and check guarantees."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec

from cns_common.clock import Clock
from cns_common.sqlite import checkpoints
from cns_common.sqlite.database import Database
from cqs.engines.embedded.engine import EmbeddedEngine
from lab.faults.power.disk import Disk, restore
from lab.faults.power.load import SCHEMA, Load
from lab.faults.power.recording_vfs import Log, Record, RecordingVfs, Sync, Write
from lab.faults.power.reopened_store import ReopenedStore
from lab.faults.power.snapshots import Snapshots
from lab.faults.results import PowerResult

STEPS = (30, 12)
"""Steps of each actor: in the store's first run, and in the run after a power cut."""
CHECKPOINT_PAGES = 100
"""The service's own 4,096 pages would be reached at most once in a round."""
RANDOM_CUTS = 6
NAMED_CUTS = 2
"""For each kind of position."""

Corruption = Callable[[Database], None]
"""The way in which a mutation test breaks the database."""


async def power_round(seed: int, *, syncs_count: bool = True, corrupt: Corruption | None = None) -> PowerResult:
    """Two runs: the second starts from the disk of a cut of the first, so that recovery is cut as well."""
    began_s = time.monotonic()
    random = Random(seed)
    log = Log()
    result = PowerResult(seed=seed, records=0, checkpoints=0, acknowledged=0, cuts={}, faults=[])
    with tempfile.TemporaryDirectory(prefix="cns-power-") as scratch, _frequent_checkpoints():
        for number, steps in enumerate(STEPS):
            directory = Path(scratch) / str(number)
            run = await _record_run(directory, log, random, steps, syncs_count=syncs_count, corrupt=corrupt)
            cuts = list(_choose(log, run, random))
            faults = [fault for cut in cuts for fault in await run.cut(directory, *cut)]
            result = PowerResult(
                seed=seed,
                records=result.records + log.position,
                checkpoints=result.checkpoints + run.checkpoints,
                acknowledged=result.acknowledged + run.acknowledged,
                cuts=Counter(result.cuts) + Counter(name for _, name in cuts),
                faults=faults,
            )
            if faults:
                break  # a broken store cannot start the second run
            log = Log(run.left_behind)
    return msgspec.structs.replace(result, seconds=round(time.monotonic() - began_s, 1))


class RecordedRun:
    """The recorded run of a store, from opening to closing."""

    def __init__(self, log: Log, load: Load, snapshots: Snapshots, ready: int, loaded: int, random: Random) -> None:
        self.log = log
        self.ready = ready  # position of the first call
        self.loaded = loaded  # position after the last call
        self._load = load
        self._snapshots = snapshots
        self._random = random
        self._disk = Disk(log)
        self.left_behind: dict[str, bytes] = {}  # files of a random cut, for the next run

    @property
    def checkpoints(self) -> int:
        store = self.log.file("store.db")
        return sum(1 for record in self.log.records if isinstance(record, Sync) and record.file == store)

    @property
    def acknowledged(self) -> int:
        return self._load.journal.acknowledged(self.log.position)

    async def cut(self, scratch: Path, position: int, name: str) -> list[str]:
        """Reopen the disk of a cut at `position` and return its faults. Positions must rise."""
        self._disk.advance(position)
        allowed = self._snapshots.allowed(position)
        faults: list[str] = []
        for variant, files in (("synced", self._disk.synced()), ("torn", self._disk.torn(self._random))):
            directory = scratch / f"{position}-{variant}"
            restore(files, directory)
            found = await ReopenedStore(directory, position, self._load.journal, allowed).check()
            faults += [f"{fault} ({name}, {position}, {variant})" for fault in found]
            if name == "random":
                self.left_behind = files
        return faults


async def _record_run(
    directory: Path, log: Log, random: Random, steps: int, *, syncs_count: bool, corrupt: Corruption | None
) -> RecordedRun:
    restore(log.base, directory / "run")
    vfs = RecordingVfs("recording", log, syncs_count=syncs_count)
    try:
        clock = Clock()
        database = Database(directory / "run", clock, vfs="recording")
        engine = EmbeddedEngine(database, clock)
        database.create_tables(SCHEMA)
        if corrupt is not None:
            corrupt(database)
        snapshots = Snapshots(database, log)
        load = Load(database, engine, clock, log, random)
        database.start(asyncio.get_running_loop())
        ready = log.position
        await load.run(steps)
        loaded = log.position
        await database.close()
    finally:
        vfs.unregister()
    return RecordedRun(log, load, snapshots, ready, loaded, random)


@contextmanager
def _frequent_checkpoints() -> Iterator[None]:
    usual, checkpoints.CHECKPOINT_PAGES = checkpoints.CHECKPOINT_PAGES, CHECKPOINT_PAGES
    try:
        yield
    finally:
        checkpoints.CHECKPOINT_PAGES = usual


# -- where to cut -----------------------------------------------------------------------------------------------------


def _choose(log: Log, run: RecordedRun, random: Random) -> Iterator[tuple[int, str]]:
    """(position, name), in rising order."""
    kinds = _named(log, run)
    chosen = {
        position: name
        for name, positions in kinds.items()
        for position in random.sample(positions, min(NAMED_CUTS, len(positions)))
    }
    for position in random.sample(range(run.ready, run.loaded), RANDOM_CUTS):
        chosen.setdefault(position, "random")
    return iter(sorted(chosen.items()))


def _named(log: Log, run: RecordedRun) -> dict[str, list[int]]:
    wal, store = log.file("store.db-wal"), log.file("store.db")
    records = log.records
    kinds: dict[str, list[int]] = {
        "first opening": list(range(run.ready)),
        "before a log sync": [],
        "after a log sync": [],
        "within a commit": [],
        "within a checkpoint": [],
        "before a checkpoint's sync": [],
        "after a checkpoint's sync": [],
        "log begun anew": [],
        "closing": list(range(run.loaded, log.position + 1)),
    }
    for position in range(run.ready, run.loaded):
        record = records[position]
        before = records[position - 1]
        if isinstance(record, Sync):
            where = "a log sync" if record.file == wal else "a checkpoint's sync"
            kinds[f"before {where}"].append(position)
            kinds[f"after {where}"].append(position + 1)
        elif _both_write(before, record, wal):
            kinds["within a commit"].append(position)
        elif _both_write(before, record, store):
            kinds["within a checkpoint"].append(position)
        if isinstance(before, Write) and before.file == wal and before.offset == 0:
            kinds["log begun anew"] += range(position, min(position + 8, run.loaded))
    return kinds


def _both_write(before: Record, record: Record, file: int) -> bool:
    return isinstance(before, Write) and isinstance(record, Write) and before.file == record.file == file
