"""Accounts, their users and access keys: made at the first start or by `cns account`, secrets sealed at rest.

A secret is sealed with AES-256-GCM under the master key, bound to its key id, and opened once into the key ring that
signatures are checked against. It is printed when it is made and never shown again.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import apsw
import msgspec

from cns_common.aws.auth.access_keys import AccessKey, caller_of, new_key
from cns_common.aws.auth.owners import ConsoleLogin, OwnerRecord, OwnerStore, folded_name
from cns_common.aws.auth.users import (
    User,
    UserRecord,
    UserStore,
    decode_user,
    encode_user,
    no_such_account,
    stored_name,
)
from cns_common.aws.call import INTERNAL_ACCOUNT, Caller
from cns_common.sealing import Seal
from cns_common.sqlite.database import Database
from cns_common.store_keys import Key, refuse_bad_keys

__all__ = ["AccessKey", "Account", "AccountStore", "EmbeddedAccountStore", "KeyRing", "exports"]

ACCOUNT_DIGITS = 12

_FOLDED_COLUMN = "folded TEXT NOT NULL DEFAULT ''"
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS accounts(account TEXT PRIMARY KEY, created_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS access_keys(key_id TEXT PRIMARY KEY, account TEXT NOT NULL, sealed BLOB NOT NULL,"
    " created_ms INTEGER NOT NULL) WITHOUT ROWID",
    # not rows of access_keys: an older program knows no users, and would take their keys for the root's
    "CREATE TABLE IF NOT EXISTS account_users(account TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,"
    " record BLOB NOT NULL, PRIMARY KEY(account, name)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS account_owners(account TEXT PRIMARY KEY, name TEXT NOT NULL, sealed BLOB NOT NULL,"
    f" password_ms INTEGER NOT NULL, {_FOLDED_COLUMN}) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS ended_sessions(id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL) WITHOUT ROWID",
)
ADDED_COLUMNS: Mapping[str, Sequence[str]] = {"account_owners": (_FOLDED_COLUMN,)}
ADDED_INDICES = (
    "CREATE INDEX IF NOT EXISTS account_owners_by_name ON account_owners(folded)",
    # names from before there was the column
    "UPDATE account_owners SET folded = folded_name(name) WHERE folded = '' AND name <> ''",
)

_KEYS = "SELECT account, key_id, sealed, created_ms FROM access_keys"
_INSERT_KEY = "INSERT INTO access_keys VALUES (?, ?, ?, ?)"
_INSERT_FIRST_KEY = (
    "INSERT INTO access_keys SELECT ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM access_keys WHERE account = ?)"
)
_USERS = "SELECT record FROM account_users"
_INSERT_USER = "INSERT OR IGNORE INTO account_users VALUES (?, ?, ?, ?)"
_REPLACE_USER = "UPDATE account_users SET version = ?, record = ? WHERE account = ? AND name = ? AND version = ?"
_OWNERS = (
    "SELECT account, name, sealed, password_ms FROM account_owners WHERE account IN (SELECT account FROM accounts)"
)
_NEW_OWNER = (
    "INSERT INTO account_owners(account, name, folded, sealed, password_ms) SELECT ?, ?, ?, ?, ?"
    " WHERE EXISTS (SELECT 1 FROM accounts WHERE account = ?)"
)
_SET_OWNER_NAME = f"{_NEW_OWNER} ON CONFLICT DO UPDATE SET name = excluded.name, folded = excluded.folded"
_SET_PASSWORD = f"{_NEW_OWNER} ON CONFLICT DO UPDATE SET sealed = excluded.sealed, password_ms = excluded.password_ms"
_DELETE_USER = "DELETE FROM account_users WHERE account = ? AND name = ? AND version = ?"


class Account(msgspec.Struct, frozen=True):
    account: str
    created_ms: int
    key_ids: tuple[str, ...]
    name: str = ""
    """The owner's name; '' if none was given."""
    has_password: bool = False
    """Whether the owner may sign in to the pages with a password."""


class AccountStore(Protocol):
    """Accounts, their users, and the keys that calls may be signed with. Unknown names raise RequestError."""

    changed: list[Callable[[str], None]]
    """Called with the account whose keys changed."""

    async def create(self, now_ms: int) -> AccessKey: ...

    async def accounts(self) -> list[Account]: ...

    async def rotate(self, account: Key, now_ms: int) -> AccessKey:
        """A new key for the root of `account`; its former keys are refused from now on. Users keep theirs."""
        ...

    async def put_root_key(self, key: AccessKey) -> None:
        """Make this the only key of an account's root. The account is made if it is new."""
        ...

    async def delete(self, account: Key) -> None:
        """Delete an account with its keys and users; done already is no error."""
        ...

    async def users(self, account: Key) -> list[User]:
        """Sorted by name."""
        ...

    async def add_user(self, account: Key, name: str, now_ms: int, given: AccessKey | None = None) -> AccessKey:
        """A new user with a first key: the given one, or a new one. Of several calls with given keys for a new user,
        each adds its key: processes that start at once apply the same file."""
        ...

    async def add_user_key(self, account: Key, name: Key, now_ms: int, given: AccessKey | None = None) -> AccessKey:
        """Another key for a user; existing keys stay valid. A given key that it has already stays, too."""
        ...

    async def set_user_active(self, account: Key, name: Key, active: bool) -> None: ...

    async def set_user_key_active(self, account: Key, name: Key, key_id: str, active: bool) -> None: ...

    async def delete_user_key(self, account: Key, name: Key, key_id: str) -> None: ...

    async def delete_user(self, account: Key, name: Key) -> None: ...

    async def set_owner_name(self, account: Key, name: str) -> None:
        """Name the owner; '' takes the name away. Raises RequestError for a name that another account has."""
        ...

    async def set_password(self, account: Key, password_hash: str, now_ms: int) -> None:
        """Set the owner's password by a hash of `hash_password`; '' takes it away. All its sessions end."""
        ...

    async def login(self, name: str) -> ConsoleLogin | None:
        """The account of this number or owner's name. None if it has no owner, or if several have the name."""
        ...

    async def keys(self) -> list[AccessKey]:
        """All valid keys with their secrets, for a process's key ring. Sessions of passwords have keys, too."""
        ...

    async def internal_key(self, now_ms: int) -> AccessKey:
        """The reserved account's key, made by the first call. `keys` contains it; account lists omit the account."""
        ...

    async def end_session(self, session: Key, until_ms: int, now_ms: int) -> None:
        """Remember until `until_ms`, when it expires, that a session of the pages has ended."""
        ...

    async def has_ended(self, session: Key) -> bool:
        """Whether `end_session` was called for a session that has not expired."""
        ...


def new_account() -> str:
    return "".join(secrets.choice(string.digits) for _ in range(ACCOUNT_DIGITS))


@refuse_bad_keys(AccountStore)
class EmbeddedAccountStore(UserStore, OwnerStore, AccountStore):
    """In the store host's SQLite file."""

    def __init__(self, database: Database, seal: Seal) -> None:
        UserStore.__init__(self, seal)
        OwnerStore.__init__(self, seal)
        database.connection.create_scalar_function("folded_name", _folded, 1, deterministic=True)
        database.create_tables(SCHEMA, ADDED_COLUMNS)
        database.create_tables(ADDED_INDICES)
        self._database = database
        self._seal = seal
        self.changed: list[Callable[[str], None]] = []

    def empty(self) -> bool:
        return self._database.reader.execute("SELECT 1 FROM accounts LIMIT 1").fetchone() is None

    async def create(self, now_ms: int) -> AccessKey:
        account = new_account()
        key = new_key(account, now_ms)

        def insert(connection: apsw.Connection) -> None:
            connection.execute("INSERT INTO accounts VALUES (?, ?)", (account, now_ms))
            connection.execute(_INSERT_KEY, self._row(key))

        await self._database.write(insert)
        self._announce(account)
        return key

    async def accounts(self) -> list[Account]:
        rows: list[Any] = self._database.reader.execute(
            "SELECT account, a.created_ms, group_concat(key_id) FROM accounts a LEFT JOIN access_keys k USING (account)"
            " GROUP BY account ORDER BY a.created_ms"
        ).fetchall()
        owners = {one.account: one for one in await self._owners()}
        return [listed_account(account, ms, (ids or "").split(","), owners.get(account)) for account, ms, ids in rows]

    async def rotate(self, account: str, now_ms: int) -> AccessKey:
        key = new_key(account, now_ms)
        if not await self._has_account(account):
            raise no_such_account(account)

        def replace(connection: apsw.Connection) -> None:
            connection.execute("DELETE FROM access_keys WHERE account = ?", (account,))
            connection.execute(_INSERT_KEY, self._row(key))

        await self._database.write(replace, grows=False)  # a key can be revoked on a full disk
        self._announce(account)
        return key

    async def put_root_key(self, key: AccessKey) -> None:
        def put(connection: apsw.Connection) -> None:
            connection.execute("INSERT OR IGNORE INTO accounts VALUES (?, ?)", (key.account, key.created_ms))
            connection.execute("DELETE FROM access_keys WHERE account = ?", (key.account,))
            connection.execute(_INSERT_KEY, self._row(key))

        await self._database.write(put)
        self._announce(key.account)

    async def delete(self, account: str) -> None:
        def delete(connection: apsw.Connection) -> None:
            for table in ("account_owners", "account_users", "access_keys", "accounts"):
                connection.execute(f"DELETE FROM {table} WHERE account = ?", (account,))

        if account != INTERNAL_ACCOUNT:
            await self._database.write(delete, grows=False)
            self._announce(account)

    async def keys(self) -> list[AccessKey]:
        roots = self._open_secrets(self._database.reader.execute(_KEYS).fetchall())
        return roots + await self._user_keys() + await self._session_keys()

    async def internal_key(self, now_ms: int) -> AccessKey:
        """The key has a row and the account has none: so no list shows the account."""
        made = new_key(INTERNAL_ACCOUNT, now_ms)

        def insert(connection: apsw.Connection) -> None:
            connection.execute(_INSERT_FIRST_KEY, (*self._row(made), INTERNAL_ACCOUNT))

        known = self._internal_keys()
        if not known:
            await self._database.write(insert)
            known = self._internal_keys()
            self._announce(INTERNAL_ACCOUNT)
        return known[0]

    def _internal_keys(self) -> list[AccessKey]:
        return self._open_secrets(
            self._database.reader.execute(f"{_KEYS} WHERE account = ?", (INTERNAL_ACCOUNT,)).fetchall()
        )

    def _open_secrets(self, rows: list[Any]) -> list[AccessKey]:
        return [
            AccessKey(account, key_id, self._seal.open(key_id, sealed).decode(), created_ms)
            for account, key_id, sealed, created_ms in rows
        ]

    def _row(self, key: AccessKey) -> tuple[str, str, bytes, int]:
        return (key.key_id, key.account, self._seal.close(key.key_id, key.secret.encode()), key.created_ms)

    def _announce(self, account: str) -> None:
        for callback in self.changed:
            callback(account)

    # -- sessions -----------------------------------------------------------------------------------------------------

    async def end_session(self, session: str, until_ms: int, now_ms: int) -> None:
        def end(connection: apsw.Connection) -> None:
            connection.execute("DELETE FROM ended_sessions WHERE until_ms <= ?", (now_ms,))
            connection.execute("INSERT OR REPLACE INTO ended_sessions VALUES (?, ?)", (session, until_ms))

        await self._database.write(end, grows=False)  # a person can sign out on a full disk

    async def has_ended(self, session: str) -> bool:
        row = self._database.reader.execute("SELECT 1 FROM ended_sessions WHERE id = ?", (session,)).fetchone()
        return row is not None

    # -- users --------------------------------------------------------------------------------------------------------

    async def _has_account(self, account: str) -> bool:
        found = self._database.reader.execute("SELECT 1 FROM accounts WHERE account = ?", (account,)).fetchone()
        return found is not None

    async def _user(self, account: str, name: str) -> UserRecord | None:
        found = self._read_users("WHERE account = ? AND name = ?", (account, stored_name(name)))
        return found[0] if found else None

    async def _users(self, account: str = "") -> Sequence[UserRecord]:
        return self._read_users("WHERE account = ?", (account,)) if account else self._read_users("", ())

    def _read_users(self, where: str, values: tuple[str, ...]) -> list[UserRecord]:
        rows = self._database.reader.execute(f"{_USERS} {where} ORDER BY account, name", values)
        return [decode_user(record) for (record,) in rows]

    async def _insert_user(self, record: UserRecord) -> bool:
        row = (record.account, stored_name(record.name), record.version, encode_user(record))
        return await self._write_row(_INSERT_USER, row)

    async def _replace_user(self, version: str, record: UserRecord, *, delete: bool) -> bool:
        key = (record.account, stored_name(record.name), version)
        if delete:
            return await self._write_row(_DELETE_USER, key, grows=False)
        # a user has few keys: what revokes one must be written on a full disk, and what adds one hardly grows the store
        return await self._write_row(_REPLACE_USER, (record.version, encode_user(record), *key), grows=False)

    async def _write_row(self, statement: str, values: tuple[Any, ...], *, grows: bool = True) -> bool:
        def write(connection: apsw.Connection) -> bool:
            connection.execute(statement, values)
            return connection.changes() == 1

        return await self._database.write(write, grows=grows)

    async def _notify_key_change(self, account: str) -> None:
        self._announce(account)

    # -- owners -------------------------------------------------------------------------------------------------------

    async def _owners(self) -> Sequence[OwnerRecord]:
        return [OwnerRecord(*row) for row in self._database.reader.execute(_OWNERS)]

    async def _owner(self, account: str) -> OwnerRecord | None:
        row: Any = self._database.reader.execute(f"{_OWNERS} AND account = ?", (account,)).fetchone()
        return None if row is None else OwnerRecord(*row)

    async def _owners_named(self, folded: str) -> Sequence[OwnerRecord]:
        return [OwnerRecord(*row) for row in self._database.reader.execute(f"{_OWNERS} AND folded = ?", (folded,))]

    async def _write_owner_name(self, account: str, name: str) -> bool:
        return await self._write_row(_SET_OWNER_NAME, (account, name, folded_name(name), b"", 0, account))

    async def _write_password(self, account: str, sealed: bytes, now_ms: int) -> bool:
        return await self._write_row(_SET_PASSWORD, (account, "", "", sealed, now_ms, account), grows=bool(sealed))


def _folded(*names: Any) -> str:
    """`folded_name` as SQLite calls it."""
    return folded_name(*names)


def listed_account(account: str, created_ms: int, key_ids: Sequence[str], owner: OwnerRecord | None) -> Account:
    name, has_password = ("", False) if owner is None else (owner.name, bool(owner.sealed))
    return Account(account, created_ms, tuple(key_ids), name, has_password)


class KeyRing:
    """The access keys that a process accepts: key id → (secret, caller)."""

    def __init__(self, keys: list[AccessKey]) -> None:
        self._keys: dict[str, tuple[str, Caller]] = {}
        self.replace(keys)

    def replace(self, keys: list[AccessKey]) -> None:
        self._keys = {key.key_id: (key.secret, caller_of(key)) for key in keys}

    def find(self, key_id: str) -> tuple[str, Caller] | None:
        return self._keys.get(key_id)


REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""Some SDKs read one of them, some the other."""


def exports(key: AccessKey, region: str, url: str) -> str:
    """Shell lines that make AWS clients call this service with this key."""
    regions = dict.fromkeys(REGION_VARIABLES, region)
    variables = {"AWS_ACCESS_KEY_ID": key.key_id, "AWS_SECRET_ACCESS_KEY": key.secret, **regions}
    return "".join([f"export {name}={value}\n" for name, value in {**variables, "AWS_ENDPOINT_URL": url}.items()])
