"""Accounts, users and access keys in Cassandra: one row per account, with its root's key, and one row per user."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from cns_common.aws.auth.access_keys import AccessKey, new_key
from cns_common.aws.auth.accounts import Account, AccountStore, listed_account, new_account
from cns_common.aws.auth.owners import OwnerRecord, OwnerStore, folded_name
from cns_common.aws.auth.users import UserRecord, UserStore, decode_user, encode_user, no_such_account, stored_name
from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.cassandra.change_listeners import ChangeNotifier
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.errors import StoreUnavailable
from cns_common.sealing import Seal
from cns_common.store_keys import refuse_bad_keys

TABLES = (
    # one partition: every process reads all rows into its key ring
    "CREATE TABLE IF NOT EXISTS accounts(shard int, account text, created_ms bigint, key_id text, sealed blob,"
    " key_created_ms bigint, owner_name text, password blob, password_ms bigint, PRIMARY KEY(shard, account))",
    # finds accounts by the owner's name; the name itself is in the account's row, which decides
    "CREATE TABLE IF NOT EXISTS account_names(folded text, account text, PRIMARY KEY(folded, account))",
    "CREATE TABLE IF NOT EXISTS account_users(shard int, account text, name text, version text, record blob,"
    " PRIMARY KEY(shard, account, name))",
    "CREATE TABLE IF NOT EXISTS ended_sessions(id text PRIMARY KEY)",
)
PAGE_ROWS = 1_000
CREATE_TRIES_MAX = 5
ENDED_GRACE_S = 3_600
"""How long it is remembered that a session has ended after it has expired."""
NAMED_MAX = 100
"""Entries of one name that are read. A name has one; more are left where a process died while it changed an owner's."""

_INSERT = Statement(
    "INSERT INTO accounts(shard, account, created_ms, key_id, sealed, key_created_ms) VALUES (0, ?, ?, ?, ?, ?)"
    " IF NOT EXISTS",
    idempotent=False,
)
_ROTATE = Statement(
    "UPDATE accounts SET key_id = ?, sealed = ?, key_created_ms = ? WHERE shard = 0 AND account = ? IF EXISTS",
    idempotent=False,
)
_SET_OWNER_NAME = Statement("UPDATE accounts SET owner_name = ? WHERE shard = 0 AND account = ? IF EXISTS")
_SET_PASSWORD = Statement("UPDATE accounts SET password = ?, password_ms = ? WHERE shard = 0 AND account = ? IF EXISTS")
_OWNERS = Statement(
    f"SELECT account, owner_name, password, password_ms FROM accounts WHERE shard = 0 AND account > ? LIMIT {PAGE_ROWS}"
)
_OWNER = Statement("SELECT account, owner_name, password, password_ms FROM accounts WHERE shard = 0 AND account = ?")
_ENTER_NAME = Statement("INSERT INTO account_names(folded, account) VALUES (?, ?)")
_LEAVE_NAME = Statement("DELETE FROM account_names WHERE folded = ? AND account = ?")
_NAMED = Statement(f"SELECT account FROM account_names WHERE folded = ? LIMIT {NAMED_MAX}")
_DELETE = Statement("DELETE FROM accounts WHERE shard = 0 AND account = ? IF EXISTS")
_SELECT = "SELECT account, created_ms, key_id, sealed, key_created_ms FROM accounts WHERE shard = 0"
_GET = Statement(f"{_SELECT} AND account = ?")
_PAGE = Statement(f"{_SELECT} AND account > ? LIMIT {PAGE_ROWS}")

_SELECT_USER = "SELECT account, name, version, record FROM account_users WHERE shard = 0"
_GET_USER = Statement(f"{_SELECT_USER} AND account = ? AND name = ?")
_USERS_OF_ACCOUNT = Statement(f"{_SELECT_USER} AND account = ? AND name > ? LIMIT ?")
_USERS_OF_ALL = Statement(f"{_SELECT_USER} AND (account, name) > (?, ?) LIMIT ?")
_INSERT_USER = Statement(
    "INSERT INTO account_users(shard, account, name, version, record) VALUES (0, ?, ?, ?, ?) IF NOT EXISTS",
    idempotent=False,
)
_REPLACE_USER = Statement(
    "UPDATE account_users SET version = ?, record = ? WHERE shard = 0 AND account = ? AND name = ? IF version = ?",
    idempotent=False,
)
_DELETE_USER = Statement(
    "DELETE FROM account_users WHERE shard = 0 AND account = ? AND name = ? IF version = ?", idempotent=False
)
_END_SESSION = Statement("INSERT INTO ended_sessions(id) VALUES (?) USING TTL ?")
_HAS_ENDED = Statement("SELECT id FROM ended_sessions WHERE id = ?")


@refuse_bad_keys(AccountStore)
class CassandraAccountStore(ChangeNotifier[str], UserStore, OwnerStore, AccountStore):
    """In Cassandra."""

    def __init__(self, cassandra: Cassandra, seal: Seal) -> None:
        ChangeNotifier.__init__(self)
        UserStore.__init__(self, seal)
        OwnerStore.__init__(self, seal)
        self._cassandra = cassandra
        self._seal = seal

    async def empty(self) -> bool:
        return not await self.accounts()

    async def create(self, now_ms: int) -> AccessKey:
        for _ in range(CREATE_TRIES_MAX):
            key = new_key(new_account(), now_ms)
            if await self._insert(key):
                return key
        raise StoreUnavailable("no number was free for a new account")

    async def accounts(self) -> list[Account]:
        rows = sorted(await self._rows(), key=lambda row: row[1])
        owners = {one.account: one for one in await self._owners()}
        return [
            listed_account(account, created_ms, (key_id,), owners.get(account))
            for account, created_ms, key_id, *_ in rows
            if account != INTERNAL_ACCOUNT
        ]

    async def rotate(self, account: str, now_ms: int) -> AccessKey:
        key = new_key(account, now_ms)
        if account == INTERNAL_ACCOUNT or not await self._replace_root_key(key):
            raise no_such_account(account)
        return key

    async def put_root_key(self, key: AccessKey) -> None:
        if not await self._insert(key) and not await self._replace_root_key(key):
            raise no_such_account(key.account)  # deleted in between

    async def _replace_root_key(self, key: AccessKey) -> bool:
        return await self._write(key, _ROTATE, key.key_id, self._close(key), key.created_ms, key.account)

    async def delete(self, account: str) -> None:
        """Users last: one that is added meanwhile finds no account, or is met here."""
        if account == INTERNAL_ACCOUNT:
            return
        owner = await self._owner(account)
        await self._cassandra.run_conditional(_DELETE, account)
        if owner is not None and owner.name:
            await self._cassandra.run(_LEAVE_NAME, folded_name(owner.name), account)
        for record in await self._users(account):
            await self._replace_user(record.version, record, delete=True)
        await self._notify(account)

    async def keys(self) -> list[AccessKey]:
        roots = [self._open(row) for row in await self._rows()]
        return roots + await self._user_keys() + await self._session_keys()

    async def internal_key(self, now_ms: int) -> AccessKey:
        """When two processes make the key at the same time, one of the two is stored, and both return it."""
        for row in await self._cassandra.run(_GET, INTERNAL_ACCOUNT):
            return self._open(row)
        made = new_key(INTERNAL_ACCOUNT, now_ms)
        if await self._insert(made):
            return made
        for row in await self._cassandra.run(_GET, INTERNAL_ACCOUNT):
            return self._open(row)
        raise StoreUnavailable("the key that another process made is not readable yet")

    async def end_session(self, session: str, until_ms: int, now_ms: int) -> None:
        left_s = max(until_ms - now_ms, 0) // 1000
        await self._cassandra.run(_END_SESSION, session, left_s + ENDED_GRACE_S)

    async def has_ended(self, session: str) -> bool:
        return bool(await self._cassandra.run(_HAS_ENDED, session))

    async def _rows(self, statement: Statement = _PAGE) -> list[Row]:
        rows: list[Row] = []
        page = await self._cassandra.run(statement, "")
        while page:
            rows += page
            page = await self._cassandra.run(statement, page[-1][0]) if len(page) == PAGE_ROWS else []
        return rows

    async def _insert(self, key: AccessKey) -> bool:
        row = (key.account, key.created_ms, key.key_id, self._close(key), key.created_ms)
        return await self._write(key, _INSERT, *row)

    async def _write(self, key: AccessKey, statement: Statement, *values: object) -> bool:
        async def ours() -> bool:
            return any(row[2] == key.key_id for row in await self._cassandra.run(_GET, key.account))

        written = await resolve_lost_write(lambda: self._cassandra.run_conditional(statement, *values), ours)
        if written:
            await self._notify(key.account)
        return written

    def _open(self, row: Row) -> AccessKey:
        account, _, key_id, sealed, key_created_ms = row
        return AccessKey(account, key_id, self._seal.open(key_id, sealed).decode(), key_created_ms)

    def _close(self, key: AccessKey) -> bytes:
        return self._seal.close(key.key_id, key.secret.encode())

    # -- users --------------------------------------------------------------------------------------------------------

    async def _has_account(self, account: str) -> bool:
        return account != INTERNAL_ACCOUNT and bool(await self._cassandra.run(_GET, account))

    async def _user(self, account: str, name: str) -> UserRecord | None:
        rows = await self._cassandra.run(_GET_USER, account, stored_name(name))
        return decode_user(rows[0][3]) if rows else None

    async def _users(self, account: str = "") -> Sequence[UserRecord]:
        found: list[UserRecord] = []
        after = (account, "")
        while True:
            page = list(await self._cassandra.run(_USERS_OF_ACCOUNT if account else _USERS_OF_ALL, *after, PAGE_ROWS))
            found += [decode_user(row[3]) for row in page]
            if len(page) < PAGE_ROWS:
                return found
            after = (page[-1][0], page[-1][1])

    async def _insert_user(self, record: UserRecord) -> bool:
        row = (record.account, stored_name(record.name), record.version, encode_user(record))
        return await self._write_user(record, _INSERT_USER, *row, written=record.version)

    async def _replace_user(self, version: str, record: UserRecord, *, delete: bool) -> bool:
        key = (record.account, stored_name(record.name), version)
        if delete:
            return await self._write_user(record, _DELETE_USER, *key, written="")
        values = (record.version, encode_user(record), *key)
        return await self._write_user(record, _REPLACE_USER, *values, written=record.version)

    async def _write_user(self, record: UserRecord, statement: Statement, *values: object, written: str) -> bool:
        """`written` is the row's version after the write, '' after a delete."""

        async def ours() -> bool:
            rows = await self._cassandra.run(_GET_USER, record.account, stored_name(record.name))
            return (rows[0][2] if rows else "") == written

        return await resolve_lost_write(lambda: self._cassandra.run_conditional(statement, *values), ours)

    async def _notify_key_change(self, account: str) -> None:
        await self._notify(account)

    # -- owners -------------------------------------------------------------------------------------------------------

    async def _owners(self) -> Sequence[OwnerRecord]:
        return _owner_records(await self._rows(_OWNERS))

    async def _owner(self, account: str) -> OwnerRecord | None:
        found = _owner_records(await self._cassandra.run(_OWNER, account))
        return found[0] if found else None

    async def _owners_named(self, folded: str) -> Sequence[OwnerRecord]:
        rows = await self._cassandra.run(_NAMED, folded)
        found = await asyncio.gather(*[self._owner(account) for (account,) in rows])
        return [owner for owner in found if owner is not None and folded_name(owner.name) == folded]

    async def _write_owner_name(self, account: str, name: str) -> bool:
        """A lost answer is repeated: the statements do the same again. The entry of a name is made before the name is
        stored, and removed after it: one too many does no harm."""
        if not await self._has_account(account):
            return False
        before = await self._owner(account)
        if name:
            await self._cassandra.run(_ENTER_NAME, folded_name(name), account)
        if not await self._write_owner(account, _SET_OWNER_NAME, name):
            return False
        if before is not None and before.name and folded_name(before.name) != folded_name(name):
            await self._cassandra.run(_LEAVE_NAME, folded_name(before.name), account)
        present = await self._owner(
            account
        )  # another process may have changed the name meanwhile, and removed its entry
        await enter_names(self._cassandra, [present] if present is not None else [])
        return True

    async def _write_password(self, account: str, sealed: bytes, now_ms: int) -> bool:
        return await self._write_owner(account, _SET_PASSWORD, sealed, now_ms)

    async def _write_owner(self, account: str, statement: Statement, *values: object) -> bool:
        return account != INTERNAL_ACCOUNT and await self._cassandra.run_conditional(statement, *values, account)


async def enter_all_names(cassandra: Cassandra) -> None:
    """Enter the names of all owners, for a keyspace from before `account_names`."""
    after = ""
    while rows := await cassandra.run(_OWNERS, after):
        await enter_names(cassandra, _owner_records(rows))
        after = rows[-1][0]


async def enter_names(cassandra: Cassandra, owners: Iterable[OwnerRecord]) -> None:
    await cassandra.run_each(_ENTER_NAME, [(folded_name(one.name), one.account) for one in owners if one.name])


def _owner_records(rows: Sequence[Row]) -> list[OwnerRecord]:
    return [
        OwnerRecord(account, name or "", password or b"", password_ms or 0)
        for account, name, password, password_ms in rows
        if account != INTERNAL_ACCOUNT and (name or password)
    ]
