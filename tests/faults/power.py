"""A power-loss round: a load recorded, cuts at points of its record, each reopened and held to what was promised."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from common import sqlite
from common.clock import Clock
from common.sqlite import Database
from cqs.engines.embedded import EmbeddedEngine
from tests.faults.disk import Disk, restore
from tests.faults.expectation import expect
from tests.faults.power_load import RECORDS, Load
from tests.faults.recording_vfs import Log, Record, RecordingVfs, Sync, Write
from tests.faults.reopening import Reopening
from tests.faults.results import Cut, PowerResult
from tests.faults.snapshots import EMPTY, Snapshots

STEPS = 30
CHECKPOINT_PAGES = 100
"""The service's own 4,096 would be reached once a round or never."""
RANDOM_CUTS = 6
NAMED_CUTS = 2
"""Of each kind."""

Spoil = Callable[[Database], None]
"""How a mutation test breaks the database."""


async def power_round(seed: int, *, syncs_count: bool = True, spoil: Spoil | None = None) -> PowerResult:
    random = Random(seed)
    log = Log()
    with tempfile.TemporaryDirectory(prefix="cns-power-") as scratch, _frequent_checkpoints():
        life = await _live(Path(scratch) / "life", log, random, syncs_count=syncs_count, spoil=spoil)
        cuts = [await life.cut(Path(scratch), number, *cut) for number, cut in enumerate(_choose(log, life, random))]
    return PowerResult(seed=seed, records=log.position, checkpoints=life.checkpoints, cuts=cuts)


class Life:
    """A store's life as it was recorded, from its first opening to its closing."""

    def __init__(self, log: Log, load: Load, snapshots: Snapshots, ready: int, loaded: int, random: Random) -> None:
        self.log = log
        self.ready = ready  # from here on there were calls
        self.loaded = loaded  # from here on there were none
        self._load = load
        self._snapshots = snapshots
        self._random = random
        self._disk = Disk(log)

    @property
    def checkpoints(self) -> int:
        store = self.log.file("store.db")
        return sum(1 for record in self.log.records if isinstance(record, Sync) and record.file == store)

    async def cut(self, scratch: Path, number: int, position: int, name: str) -> Cut:
        """Positions must come in rising order."""
        self._disk.advance(position)
        expected = expect(self._load.journal, position)
        allowed = self._snapshots.allowed(position) if position >= self.ready else {EMPTY}
        faults: list[str] = []
        for variant, files in (("synced", self._disk.synced()), ("torn", self._disk.torn(self._random))):
            directory = scratch / f"{number}-{variant}"
            restore(files, directory)
            found = await Reopening(directory, expected, self._load.journal, allowed).check()
            faults += [f"{variant}: {fault}" for fault in found]
        return Cut(name=name, position=position, acknowledged=expected.acknowledged, faults=faults)


async def _live(directory: Path, log: Log, random: Random, *, syncs_count: bool, spoil: Spoil | None) -> Life:
    vfs = RecordingVfs("recording", log, syncs_count=syncs_count)
    try:
        clock = Clock()
        database = Database(directory, clock, vfs="recording")
        engine = EmbeddedEngine(database, clock)
        database.create(RECORDS)
        if spoil is not None:
            spoil(database)
        snapshots = Snapshots(database, log)
        load = Load(database, engine, clock, log, random, "a")
        database.start(asyncio.get_running_loop())
        ready = log.position
        await load.run(STEPS)
        loaded = log.position
        await database.close()
    finally:
        vfs.unregister()
    return Life(log, load, snapshots, ready, loaded, random)


@contextmanager
def _frequent_checkpoints() -> Iterator[None]:
    usual, sqlite.CHECKPOINT_PAGES = sqlite.CHECKPOINT_PAGES, CHECKPOINT_PAGES
    try:
        yield
    finally:
        sqlite.CHECKPOINT_PAGES = usual


# -- where to cut -----------------------------------------------------------------------------------------------------


def _choose(log: Log, life: Life, random: Random) -> Iterator[tuple[int, str]]:
    """(position, name), in rising order."""
    kinds = _named(log, life)
    chosen = {
        position: name
        for name, positions in kinds.items()
        for position in random.sample(positions, min(NAMED_CUTS, len(positions)))
    }
    for position in random.sample(range(life.ready, life.loaded), RANDOM_CUTS):
        chosen.setdefault(position, "random")
    return iter(sorted(chosen.items()))


def _named(log: Log, life: Life) -> dict[str, list[int]]:
    wal, store = log.file("store.db-wal"), log.file("store.db")
    records = log.records
    kinds: dict[str, list[int]] = {
        "first opening": list(range(life.ready)),
        "before a log sync": [],
        "after a log sync": [],
        "within a commit": [],
        "within a checkpoint": [],
        "before a checkpoint's sync": [],
        "after a checkpoint's sync": [],
        "log begun anew": [],
        "closing": list(range(life.loaded, log.position + 1)),
    }
    for position in range(life.ready, life.loaded):
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
            kinds["log begun anew"] += range(position, min(position + 8, life.loaded))
    return kinds


def _both_write(before: Record, record: Record, file: int) -> bool:
    return isinstance(before, Write) and isinstance(record, Write) and before.file == record.file == file
