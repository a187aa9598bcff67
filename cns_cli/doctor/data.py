"""Checks of the data directory of the embedded form. They write nothing."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import apsw

from cns_backend.backups.record import last_backup
from cns_cli.doctor.findings import CheckResult, ok, problem, warning
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.durations import DAY_MS
from cns_common.sqlite.database import STORE_FILE
from cns_common.sqlite.format import FORMAT
from cns_common.sqlite.opening import MASTER_KEY_FILE, PAGE_BYTES

BACKUP_AGE_WARNED_DAYS = 7
UNUSED_BYTES_WARNED = 64 * 1024 * 1024


def check_data(settings: Settings) -> list[CheckResult]:
    """Owner, mode, version, key and backup of the store."""
    store = settings.data.absolute() / STORE_FILE
    if not store.exists():
        where = f"there is no store in {settings.data.absolute()}"
        return [warning("data", where, "`cns up` makes one there; name another directory with --data or CNS_DATA")]
    return [_owner(store), *_content(store), _key(settings, store), _backup(settings)]


def _owner(store: Path) -> CheckResult:
    owner, me = store.stat().st_uid, os.geteuid()
    name = _user(owner)
    if owner != me and me != 0:
        text = f"{store.parent} belongs to {name}, and this is {_user(me)}"
        return problem("data", text, f"run commands as {name}: sudo -u {name} cns …")
    if not os.access(store, os.R_OK | os.W_OK):
        return problem("data", f"{store} cannot be written", f"chmod u+rw {store}")
    return ok("data", f"{store.parent} belongs to {name}")


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _content(store: Path) -> list[CheckResult]:
    """The version of the store, and its unused space."""
    try:
        connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(1_000)
            version: int = connection.pragma("user_version")
            pages, unused = connection.pragma("page_count"), connection.pragma("freelist_count")
        finally:
            connection.close()
    except apsw.BusyError:  # the service locks it while its disk is full
        return [ok("store", "its version is unknown while the disk of the service is full")]
    except apsw.Error as error:
        return [problem("store", f"{store} cannot be read: {error}", "`cns check` says more; `cns restore` a backup")]
    return [_version(version), _unused(unused * PAGE_BYTES, pages * PAGE_BYTES)]


def _version(version: int) -> CheckResult:
    if version > FORMAT:
        text = f"the store is of format {version}, this program reads up to {FORMAT}"
        return problem("store", text, "install the newer version again, or `cns restore` a backup of this version")
    if version < FORMAT:
        return ok("store", f"format {version}: the next start makes it {FORMAT}, after a backup")
    return ok("store", f"format {version} of {FORMAT}")


def _unused(unused: int, size: int) -> CheckResult:
    text = f"{unused:,} of {size:,} bytes of the store are unused"
    if unused:
        text += ": `cns compact` would give them back"
    if unused >= UNUSED_BYTES_WARNED and 2 * unused >= size:
        return warning("room", text, "stop the service, then `cns compact`")
    return ok("room", text)


def _key(settings: Settings, store: Path) -> CheckResult:
    path = store.with_name(MASTER_KEY_FILE)
    if settings.master_key:
        return ok("master key", "given by CNS_MASTER_KEY")
    if not path.exists():
        text = f"{path} is missing, which opens the accounts' secrets"
        return problem("master key", text, "copy it from a backup, or set CNS_MASTER_KEY")
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return warning("master key", f"other users can read {path}", f"chmod 600 {path}")
    return ok("master key", f"{path}, which only its owner can read")


def _backup(settings: Settings) -> CheckResult:
    last = last_backup(settings.data)
    if last is None:
        return warning("backup", "there was none yet", "cns backup DIRECTORY")
    days = (Clock().real_ms() - last.at_ms) // DAY_MS
    text = f"the last one is {days} days old, in {last.directory}"
    return warning("backup", text, "cns backup DIRECTORY") if days >= BACKUP_AGE_WARNED_DAYS else ok("backup", text)
