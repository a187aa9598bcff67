"""A power-loss round: a load recorded, cuts at points of its record, each reopened and held to what was promised."""

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
from cqs.engines.embedded import EmbeddedEngine
from faults.power.disk import Disk, restore
from faults.power.load import SCHEMA, Load
from faults.power.recording_vfs import Log, Record, RecordingVfs, Sync, Write
from faults.power.reopening import Reopening
from faults.power.snapshots import Snapshots
from faults.results import PowerResult

STEPS = (30, 12)
"""Steps of each actor: in a store's first run, and in the run after a power cut."""
CHECKPOINT_PAGES = 100
"""The service's own 4,096 would be reached once a round or never."""
RANDOM_CUTS = 6
NAMED_CUTS = 2
"""Of each kind."""

Spoil = Callable[[Database], None]
"""How a mutation test breaks the database."""


async def power_round(seed: int, *, syncs_count: bool = True, spoil: Spoil | None = None) -> PowerResult:
    """Two runs of a store: the second begins with what a cut of the first left, so that recovery is cut, too."""
    began_s = time.monotonic()
    random = Random(seed)
    log = Log()
    result = PowerResult(seed=seed, records=0, checkpoints=0, acknowledged=0, cuts={}, faults=[])
    with tempfile.TemporaryDirectory(prefix="cns-power-") as scratch, _frequent_checkpoints():
        for number, steps in enumerate(STEPS):
            directory = Path(scratch) / str(number)
            store_run = await _live(directory, log, random, steps, syncs_count=syncs_count, spoil=spoil)
            cuts = list(_choose(log, store_run, random))
            faults = [fault for cut in cuts for fault in await store_run.cut(directory, *cut)]
            result = PowerResult(
                seed=seed,
                records=result.records + log.position,
                checkpoints=result.checkpoints + store_run.checkpoints,
                acknowledged=result.acknowledged + store_run.acknowledged,
                cuts=Counter(result.cuts) + Counter(name for _, name in cuts),
                faults=faults,
            )
            if faults:
                break  # a broken store is not run again
            log = Log(store_run.left_behind)
    return msgspec.structs.replace(result, seconds=round(time.monotonic() - began_s, 1))


class StoreRun:
    """A recorded run of a store, from its opening to its closing."""

    def __init__(self, log: Log, load: Load, snapshots: Snapshots, ready: int, loaded: int, random: Random) -> None:
        self.log = log
        self.ready = ready  # from here on there were calls
        self.loaded = loaded  # from here on there were none
        self._load = load
        self._snapshots = snapshots
        self._random = random
        self._disk = Disk(log)
        self.left_behind: dict[str, bytes] = {}  # by one of its cuts

    @property
    def checkpoints(self) -> int:
        store = self.log.file("store.db")
        return sum(1 for record in self.log.records if isinstance(record, Sync) and record.file == store)

    @property
    def acknowledged(self) -> int:
        return self._load.journal.acknowledged(self.log.position)

    async def cut(self, scratch: Path, position: int, name: str) -> list[str]:
        """What is wrong with the store that a cut at `position` leaves. Positions must come in rising order."""
        self._disk.advance(position)
        allowed = self._snapshots.allowed(position)
        faults: list[str] = []
        for variant, files in (("synced", self._disk.synced()), ("torn", self._disk.torn(self._random))):
            directory = scratch / f"{position}-{variant}"
            restore(files, directory)
            found = await Reopening(directory, position, self._load.journal, allowed).check()
            faults += [f"{fault} ({name}, {position}, {variant})" for fault in found]
            if name == "random":
                self.left_behind = files
        return faults


async def _live(
    directory: Path, log: Log, random: Random, steps: int, *, syncs_count: bool, spoil: Spoil | None
) -> StoreRun:
    restore(log.base, directory / "store_run")
    vfs = RecordingVfs("recording", log, syncs_count=syncs_count)
    try:
        clock = Clock()
        database = Database(directory / "store_run", clock, vfs="recording")
        engine = EmbeddedEngine(database, clock)
        database.create_tables(SCHEMA)
        if spoil is not None:
            spoil(database)
        snapshots = Snapshots(database, log)
        load = Load(database, engine, clock, log, random)
        database.start(asyncio.get_running_loop())
        ready = log.position
        await load.run(steps)
        loaded = log.position
        await database.close()
    finally:
        vfs.unregister()
    return StoreRun(log, load, snapshots, ready, loaded, random)


@contextmanager
def _frequent_checkpoints() -> Iterator[None]:
    usual, checkpoints.CHECKPOINT_PAGES = checkpoints.CHECKPOINT_PAGES, CHECKPOINT_PAGES
    try:
        yield
    finally:
        checkpoints.CHECKPOINT_PAGES = usual


# -- where to cut -----------------------------------------------------------------------------------------------------


def _choose(log: Log, store_run: StoreRun, random: Random) -> Iterator[tuple[int, str]]:
    """(position, name), in rising order."""
    kinds = _named(log, store_run)
    chosen = {
        position: name
        for name, positions in kinds.items()
        for position in random.sample(positions, min(NAMED_CUTS, len(positions)))
    }
    for position in random.sample(range(store_run.ready, store_run.loaded), RANDOM_CUTS):
        chosen.setdefault(position, "random")
    return iter(sorted(chosen.items()))


def _named(log: Log, store_run: StoreRun) -> dict[str, list[int]]:
    wal, store = log.file("store.db-wal"), log.file("store.db")
    records = log.records
    kinds: dict[str, list[int]] = {
        "first opening": list(range(store_run.ready)),
        "before a log sync": [],
        "after a log sync": [],
        "within a commit": [],
        "within a checkpoint": [],
        "before a checkpoint's sync": [],
        "after a checkpoint's sync": [],
        "log begun anew": [],
        "closing": list(range(store_run.loaded, log.position + 1)),
    }
    for position in range(store_run.ready, store_run.loaded):
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
            kinds["log begun anew"] += range(position, min(position + 8, store_run.loaded))
    return kinds


def _both_write(before: Record, record: Record, file: int) -> bool:
    return isinstance(before, Write) and isinstance(record, Write) and before.file == record.file == file
