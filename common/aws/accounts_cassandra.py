"""Accounts and their access keys in Cassandra: one row an account, which holds the key that is good now."""

from __future__ import annotations

from common.aws.accounts import AccessKey, Account, new_account, new_key
from common.aws.call import INTERNAL_ACCOUNT
from common.cassandra import Cassandra, Row, Statement
from common.conditional import decide
from common.errors import RequestError, StoreUnavailable
from common.sealing import Seal
from common.telling import Telling

TABLES = (
    # one partition: every process reads all of it into its key ring
    "CREATE TABLE IF NOT EXISTS accounts(shard int, account text, created_ms bigint, key_id text, sealed blob,"
    " key_created_ms bigint, PRIMARY KEY(shard, account))",
)
PAGE_ROWS = 1_000
CREATE_TRIES_MAX = 5

_INSERT = Statement(
    "INSERT INTO accounts(shard, account, created_ms, key_id, sealed, key_created_ms) VALUES (0, ?, ?, ?, ?, ?)"
    " IF NOT EXISTS",
    idempotent=False,
)
_ROTATE = Statement(
    "UPDATE accounts SET key_id = ?, sealed = ?, key_created_ms = ? WHERE shard = 0 AND account = ? IF EXISTS",
    idempotent=False,
)
_SELECT = "SELECT account, created_ms, key_id, sealed, key_created_ms FROM accounts WHERE shard = 0"
_GET = Statement(f"{_SELECT} AND account = ?")
_PAGE = Statement(f"{_SELECT} AND account > ? LIMIT {PAGE_ROWS}")


class CassandraAccountStore(Telling[str]):
    """See `common.aws.accounts.AccountStore`."""

    def __init__(self, cassandra: Cassandra, seal: Seal) -> None:
        super().__init__()
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
        return [
            Account(account, created_ms, (key_id,))
            for account, created_ms, key_id, *_ in rows
            if account != INTERNAL_ACCOUNT
        ]

    async def rotate(self, account: str, now_ms: int) -> AccessKey:
        key = new_key(account, now_ms)
        values = (key.key_id, self._close(key), now_ms, account)
        if account == INTERNAL_ACCOUNT or not await self._write(key, _ROTATE, *values):
            raise RequestError("NoSuchAccount", f"there is no account {account}")
        return key

    async def keys(self) -> list[AccessKey]:
        return [self._open(row) for row in await self._rows()]

    async def internal_key(self, now_ms: int) -> AccessKey:
        """Of two processes that make it, one's is kept."""
        for row in await self._cassandra.run(_GET, INTERNAL_ACCOUNT):
            return self._open(row)
        made = new_key(INTERNAL_ACCOUNT, now_ms)
        if await self._insert(made):
            return made
        for row in await self._cassandra.run(_GET, INTERNAL_ACCOUNT):
            return self._open(row)
        raise StoreUnavailable("the key that another process made is not readable yet")

    async def _rows(self) -> list[Row]:
        rows: list[Row] = []
        page = await self._cassandra.run(_PAGE, "")
        while page:
            rows += page
            page = await self._cassandra.run(_PAGE, page[-1][0]) if len(page) == PAGE_ROWS else []
        return rows

    async def _insert(self, key: AccessKey) -> bool:
        row = (key.account, key.created_ms, key.key_id, self._close(key), key.created_ms)
        return await self._write(key, _INSERT, *row)

    async def _write(self, key: AccessKey, statement: Statement, *values: object) -> bool:
        async def ours() -> bool:
            return any(row[2] == key.key_id for row in await self._cassandra.run(_GET, key.account))

        written = await decide(lambda: self._cassandra.applied(statement, *values), ours)
        if written:
            await self._tell(key.account)
        return written

    def _open(self, row: Row) -> AccessKey:
        account, _, key_id, sealed, key_created_ms = row
        return AccessKey(account, key_id, self._seal.open(key_id, sealed).decode(), key_created_ms)

    def _close(self, key: AccessKey) -> bytes:
        return self._seal.close(key.key_id, key.secret.encode())
