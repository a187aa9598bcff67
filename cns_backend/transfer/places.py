"""The two stores of a move, and the settings that open them under the source's master key."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from cns_backend.backups.backup import write_durably
from cns_backend.cluster import open_session
from cns_backend.engines import DEFAULT_CLUSTER_ENGINE, DEFAULT_EMBEDDED_ENGINE
from cns_backend.stores.cassandra.move_marks import CassandraMoveMarks
from cns_backend.transfer.cassandra import clear, first_content, keyspace_name
from cns_backend.transfer.moves import FileMoveMarks, Store
from cns_common.cassandra.session import Cassandra
from cns_common.configuration.settings import Settings
from cns_common.data_directory import EXIT_DATA_IN_USE, EXIT_DATA_UNUSABLE, lock_directory
from cns_common.data_owner import is_another_users
from cns_common.errors import EXIT_SETTINGS_WRONG, StartError
from cns_common.sealing import load_master_key
from cns_common.sqlite.database import LOCK_FILE, STORE_FILE
from cns_common.sqlite.opening import MASTER_KEY_FILE

MIGRATE_LOCK = "migrate.lock"
_STORE_FILES = (STORE_FILE, f"{STORE_FILE}-wal", f"{STORE_FILE}-shm", MASTER_KEY_FILE)


class Places:
    """`directory` is a data directory; `settings` are the cluster's. Raises StartError without a store or its key."""

    def __init__(self, directory: Path, settings: Settings, *, to_cluster: bool) -> None:
        others = {DEFAULT_CLUSTER_ENGINE, DEFAULT_EMBEDDED_ENGINE}
        for name, values in (("CNS_ENGINES", settings.engines), ("CNS_INTERNAL_ENGINE", (settings.internal_engine,))):
            if any(values) and not others & set(values):
                text = f"{name}={','.join(values)}: a move needs the engine {DEFAULT_CLUSTER_ENGINE}"
                raise StartError(text, EXIT_SETTINGS_WRONG)
        for one in (directory, settings.data):
            if one.is_dir() and is_another_users(one):
                raise StartError(
                    f"{one.absolute()} is another user's: run this command as its owner", EXIT_DATA_UNUSABLE
                )
        self.directory = directory
        self.to_cluster = to_cluster
        source, self.target_data = (directory, settings.data) if to_cluster else (settings.data, directory)
        if to_cluster and not (directory / STORE_FILE).exists():
            raise StartError(f"there is no store in {directory.absolute()}", EXIT_DATA_UNUSABLE)
        key = base64.b64encode(load_master_key(source, settings.master_key, may_make=False)).decode()
        self._key = "" if settings.master_key else key
        """The key to place in the target's directory."""
        plain = {"master_key": key, "engines": (), "default_engine": "", "internal_engine": "", "reserve_bytes": 0}
        self.embedded = settings.model_copy(update={**plain, "data": directory, "store": "embedded"})
        self.cluster = settings.model_copy(update={**plain, "store": "cassandra"})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep services away from the directory. Raises StartError if there is one."""
        fd = lock_directory(self.directory, LOCK_FILE)
        try:
            yield
        finally:
            os.close(fd)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other runs away from the directory. Raises StartError if there is one. Leaves no file, and no directory
        that is new and empty."""
        is_new = not self.directory.exists()
        fd = lock_directory(self.directory, MIGRATE_LOCK)
        try:
            if not os.fstat(fd).st_nlink:
                raise StartError(f"another `cns migrate` in {self.directory} has just ended", EXIT_DATA_IN_USE)
            try:
                yield
            finally:
                (self.directory / MIGRATE_LOCK).unlink(missing_ok=True)
                if is_new:
                    with suppress(OSError):  # it is not empty
                        self.directory.rmdir()
        finally:
            os.close(fd)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Cassandra, Store, Store]]:
        """A session of the cluster, the source and the target."""
        with self._alone():
            async with open_session(self.cluster, moving=True) as (cassandra, _):
                directory = Store(str(self.directory.absolute()), FileMoveMarks(self.directory))
                keyspace = Store(keyspace_name(self.cluster), CassandraMoveMarks(cassandra))
                yield cassandra, *((directory, keyspace) if self.to_cluster else (keyspace, directory))

    # -- the target ---------------------------------------------------------------------------------------------------

    async def content(self, cassandra: Cassandra) -> str:
        """What the target has; '' if it is empty."""
        if self.to_cluster:
            table = await first_content(cassandra)
            return f"{keyspace_name(self.cluster)} has rows in the table {table}" if table else ""
        found = [name for name in _STORE_FILES if (self.directory / name).exists()]
        return f"{self.directory.absolute()} has {found[0]}" if found else ""

    async def clear(self, cassandra: Cassandra) -> None:
        """Remove what a run that was cut off wrote to the target."""
        if self.to_cluster:
            await clear(cassandra)
        else:
            for name in _STORE_FILES:
                (self.directory / name).unlink(missing_ok=True)

    def check_key(self) -> None:
        """Raise StartError if the target's directory has another master key."""
        path = self.target_data / MASTER_KEY_FILE
        if self._key and path.exists() and path.read_text().strip() != self._key:
            text = f"{path} is another master key than the source's: name another directory with --data or CNS_DATA"
            raise StartError(text, EXIT_DATA_UNUSABLE)

    def place_key(self) -> None:
        path = self.target_data / MASTER_KEY_FILE
        if self._key and not path.exists():
            self.target_data.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_durably(path, self._key.encode() + b"\n")

    def copy_files(self) -> int:
        """Copy event segments, acts and delivery logs. Returns their number."""
        ours, theirs = (self.embedded, self.cluster) if self.to_cluster else (self.cluster, self.embedded)
        copied = 0
        for source, target in (
            (ours.events_path, theirs.events_path),
            (ours.acts_path, theirs.acts_path),
            (ours.delivery_logs_path, theirs.delivery_logs_path),
        ):
            if not source.is_dir() or source.absolute() == target.absolute():
                continue
            for file in sorted(path for path in source.rglob("*") if path.is_file()):
                copied += 1
                there = target / file.relative_to(source)
                if there.exists() and there.stat().st_size == file.stat().st_size:
                    continue  # of a run that was cut off
                there.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                scratch = there.with_name(f".{there.name}.partial")
                shutil.copy2(file, scratch)
                scratch.rename(there)
        return copied
