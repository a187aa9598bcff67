"""Accounts and their access keys: made at the first start or by `cns account`, secrets sealed at rest.

A secret is sealed with AES-256-GCM under the master key, bound to its key id, and opened once into the key ring that
signatures are checked against. It is printed when it is made and never shown again.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable
from typing import Any, Protocol

import apsw
import msgspec

from common.aws.call import INTERNAL_ACCOUNT, Caller, root_caller
from common.errors import RequestError
from common.sealing import Seal
from common.sqlite import Database

ACCOUNT_DIGITS = 12
KEY_ID_LENGTH = 20
SECRET_LENGTH = 40
_KEY_ID_ALPHABET = string.ascii_uppercase + "234567"
_SECRET_ALPHABET = string.ascii_letters + string.digits + "+/"

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS accounts(account TEXT PRIMARY KEY, created_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS access_keys(key_id TEXT PRIMARY KEY, account TEXT NOT NULL, sealed BLOB NOT NULL,"
    " created_ms INTEGER NOT NULL) WITHOUT ROWID",
)

_KEYS = "SELECT account, key_id, sealed, created_ms FROM access_keys"
_INSERT_KEY = "INSERT INTO access_keys VALUES (?, ?, ?, ?)"
_INSERT_FIRST_KEY = (
    "INSERT INTO access_keys SELECT ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM access_keys WHERE account = ?)"
)


class AccessKey(msgspec.Struct, frozen=True):
    """A key pair as it is handed out, or held in the key ring."""

    account: str
    key_id: str
    secret: str
    created_ms: int


class Account(msgspec.Struct, frozen=True):
    account: str
    created_ms: int
    key_ids: tuple[str, ...]


class AccountStore(Protocol):
    """Who may call."""

    changed: list[Callable[[str], None]]
    """Called with an account whose keys changed: read the keys anew."""

    async def create(self, now_ms: int) -> AccessKey: ...

    async def accounts(self) -> list[Account]: ...

    async def rotate(self, account: str, now_ms: int) -> AccessKey:
        """A new key for `account`; its former keys are refused from now on."""
        ...

    async def keys(self) -> list[AccessKey]:
        """All keys with their secrets, for the key ring of a process of this service."""
        ...

    async def internal_key(self, now_ms: int) -> AccessKey:
        """The reserved account's, made when it is first asked for. It is in `keys`, and in no list of accounts."""
        ...


def new_account() -> str:
    return "".join(secrets.choice(string.digits) for _ in range(ACCOUNT_DIGITS))


def new_key(account: str, now_ms: int) -> AccessKey:
    key_id = "AKIA" + "".join(secrets.choice(_KEY_ID_ALPHABET) for _ in range(KEY_ID_LENGTH - 4))
    secret = "".join(secrets.choice(_SECRET_ALPHABET) for _ in range(SECRET_LENGTH))
    return AccessKey(account, key_id, secret, now_ms)


class EmbeddedAccountStore:
    """See `AccountStore`; lives in the store host."""

    def __init__(self, database: Database, seal: Seal) -> None:
        database.create(SCHEMA)
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
        return [Account(account, ms, tuple((ids or "").split(","))) for account, ms, ids in rows]

    async def rotate(self, account: str, now_ms: int) -> AccessKey:
        key = new_key(account, now_ms)
        known = self._database.reader.execute("SELECT 1 FROM accounts WHERE account = ?", (account,)).fetchone()
        if known is None:
            raise RequestError("NoSuchAccount", f"there is no account {account}")

        def replace(connection: apsw.Connection) -> None:
            connection.execute("DELETE FROM access_keys WHERE account = ?", (account,))
            connection.execute(_INSERT_KEY, self._row(key))

        await self._database.write(replace)
        self._announce(account)
        return key

    async def keys(self) -> list[AccessKey]:
        return self.read_keys()

    async def internal_key(self, now_ms: int) -> AccessKey:
        """Its key has a row and the account has none: that is why no list shows it."""
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
        return self._opened(self._database.reader.execute(f"{_KEYS} WHERE account = ?", (INTERNAL_ACCOUNT,)).fetchall())

    def read_keys(self) -> list[AccessKey]:
        return self._opened(self._database.reader.execute(_KEYS).fetchall())

    def _opened(self, rows: list[Any]) -> list[AccessKey]:
        return [
            AccessKey(account, key_id, self._seal.open(key_id, sealed).decode(), created_ms)
            for account, key_id, sealed, created_ms in rows
        ]

    def _row(self, key: AccessKey) -> tuple[str, str, bytes, int]:
        return (key.key_id, key.account, self._seal.close(key.key_id, key.secret.encode()), key.created_ms)

    def _announce(self, account: str) -> None:
        for callback in self.changed:
            callback(account)


class KeyRing:
    """The access keys a process knows: key id → (secret, caller)."""

    def __init__(self, keys: list[AccessKey]) -> None:
        self._keys: dict[str, tuple[str, Caller]] = {}
        self.replace(keys)

    def replace(self, keys: list[AccessKey]) -> None:
        self._keys = {key.key_id: (key.secret, root_caller(key.account, key.key_id)) for key in keys}

    def find(self, key_id: str) -> tuple[str, Caller] | None:
        return self._keys.get(key_id)


REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""Some SDKs read the one, some the other."""


def exports(key: AccessKey, region: str, url: str) -> str:
    """Shell lines, ready to paste, that point every AWS client here."""
    regions = dict.fromkeys(REGION_VARIABLES, region)
    variables = {"AWS_ACCESS_KEY_ID": key.key_id, "AWS_SECRET_ACCESS_KEY": key.secret, **regions}
    return "".join([f"export {name}={value}\n" for name, value in {**variables, "AWS_ENDPOINT_URL": url}.items()])
