"""Named users of an account: their keys, their operations, and the limits.

`UserStore` is shared by all account stores: a store reads and replaces single records. A record has a version, so that
two changes at the same time both take effect: one is repeated on what the other wrote.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from cns_common.aws.auth.access_keys import KEY_ALPHABET, AccessKey, new_key
from cns_common.aws.call import USER_NAME
from cns_common.errors import RequestError, StoreUnavailable
from cns_common.ids import hex_id
from cns_common.sealing import Seal

USERS_MAX = 5_000
"""Users per account, as at AWS; checked when a user is added."""
USER_KEYS_MAX = 2
"""Keys per user, as at AWS: the old and the new one of a rotation."""
USER_ID_LENGTH = 21
CHANGE_TRIES_MAX = 5
"""Tries of a change that meets other changes to the same user."""


class UserKey(msgspec.Struct, frozen=True):
    """A key of a user, without its secret."""

    key_id: str
    created_ms: int
    active: bool = True


class User(msgspec.Struct, frozen=True):
    """A user as lists show it, without secrets."""

    account: str
    name: str
    user_id: str
    created_ms: int
    active: bool
    keys: tuple[UserKey, ...]


class SealedKey(msgspec.Struct, frozen=True):
    key_id: str
    created_ms: int
    sealed: bytes
    active: bool = True


class UserRecord(msgspec.Struct, frozen=True):
    """A user as it is stored."""

    account: str
    name: str
    user_id: str
    created_ms: int
    version: str
    active: bool = True
    keys: tuple[SealedKey, ...] = ()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(UserRecord)


def encode_user(record: UserRecord) -> bytes:
    return _encoder.encode(record)


def decode_user(record: bytes) -> UserRecord:
    return _decoder.decode(record)


def stored_name(name: str) -> str:
    """The key of a user's row: names that differ only in case name the same user, as at AWS."""
    return name.lower()


class UserStore(ABC):
    """The operations on users. What `_insert_user` and `_replace_user` write is durable when they return."""

    def __init__(self, seal: Seal) -> None:
        self._user_seal = seal

    # -- what a store implements --------------------------------------------------------------------------------------

    @abstractmethod
    async def _has_account(self, account: str) -> bool: ...

    @abstractmethod
    async def _user(self, account: str, name: str) -> UserRecord | None: ...

    @abstractmethod
    async def _users(self, account: str = "") -> Sequence[UserRecord]:
        """Sorted by name; of all accounts if `account` is empty."""

    @abstractmethod
    async def _insert_user(self, record: UserRecord) -> bool:
        """Returns False when the account has a user of that name."""

    @abstractmethod
    async def _replace_user(self, version: str, record: UserRecord, *, delete: bool) -> bool:
        """Returns False when the stored record has another version than `version`."""

    @abstractmethod
    async def _notify_key_change(self, account: str) -> None:
        """Make every process read the keys again."""

    # -- the operations -----------------------------------------------------------------------------------------------

    async def users(self, account: str) -> list[User]:
        await self._check_account(account)
        return [_listed_user(record) for record in await self._users(account)]

    async def add_user(self, account: str, name: str, now_ms: int, given: AccessKey | None = None) -> AccessKey:
        if not USER_NAME.fullmatch(name):
            raise RequestError("ValidationError", f"a user's name is 1 to 64 of A-Z a-z 0-9 _ + = , . @ -: {name!r}")
        await self._check_account(account)
        if len(await self._users(account)) >= USERS_MAX:
            raise RequestError("LimitExceeded", f"account {account} has {USERS_MAX} users, as many as it may")
        bare = UserRecord(account, name, _new_user_id(), now_ms, hex_id())
        key, record = self._with_key(bare, given or new_key(account, now_ms))
        if not await self._insert_user(record):
            if given is not None:
                return await self.add_user_key(account, name, now_ms, given)
            raise RequestError("EntityAlreadyExists", f"account {account} has a user {name} already")
        await self._notify_key_change(account)
        return key

    async def add_user_key(self, account: str, name: str, now_ms: int, given: AccessKey | None = None) -> AccessKey:
        made: list[AccessKey] = []

        def add(record: UserRecord) -> UserRecord:
            if given is not None and any(one.key_id == given.key_id for one in record.keys):
                made.append(given)
                return record
            if len(record.keys) >= USER_KEYS_MAX:
                raise RequestError("LimitExceeded", f"user {name} has {USER_KEYS_MAX} keys, as many as it may")
            key, changed = self._with_key(record, given or new_key(account, now_ms))
            made.append(key)
            return changed

        await self._change_user(account, name, add)
        return made[-1]

    async def set_user_active(self, account: str, name: str, active: bool) -> None:
        """Calls with keys of an inactive user are refused."""
        await self._change_user(account, name, lambda record: replace(record, active=active))

    async def set_user_key_active(self, account: str, name: str, key_id: str, active: bool) -> None:
        def change(record: UserRecord) -> UserRecord:
            _check_key(record, key_id)
            changed = [replace(key, active=active) if key.key_id == key_id else key for key in record.keys]
            return replace(record, keys=tuple(changed))

        await self._change_user(account, name, change)

    async def delete_user_key(self, account: str, name: str, key_id: str) -> None:
        def change(record: UserRecord) -> UserRecord:
            _check_key(record, key_id)
            return replace(record, keys=tuple([key for key in record.keys if key.key_id != key_id]))

        await self._change_user(account, name, change)

    async def delete_user(self, account: str, name: str) -> None:
        """Delete a user and its keys. A user added under this name later has another id."""
        await self._change_user(account, name, lambda record: record, delete=True)

    async def _user_keys(self) -> list[AccessKey]:
        """The keys that calls may be signed with."""
        return [
            AccessKey(
                record.account,
                key.key_id,
                self._user_seal.open(key.key_id, key.sealed).decode(),
                key.created_ms,
                record.name,
                record.user_id,
            )
            for record in await self._users()
            if record.active
            for key in record.keys
            if key.active
        ]

    # -- helpers ------------------------------------------------------------------------------------------------------

    async def _check_account(self, account: str) -> None:
        if not await self._has_account(account):
            raise no_such_account(account)

    async def _change_user(
        self, account: str, name: str, change: Callable[[UserRecord], UserRecord], *, delete: bool = False
    ) -> None:
        for _ in range(CHANGE_TRIES_MAX):
            record = await self._user(account, name)
            if record is None:
                await self._check_account(account)
                raise RequestError("NoSuchEntity", f"account {account} has no user {name}")
            changed = replace(change(record), version=hex_id())
            if await self._replace_user(record.version, changed, delete=delete):
                await self._notify_key_change(account)
                return
        raise StoreUnavailable(f"other changes to user {name} met this one {CHANGE_TRIES_MAX} times")

    def _with_key(self, record: UserRecord, bare: AccessKey) -> tuple[AccessKey, UserRecord]:
        key = replace(bare, account=record.account, user=record.name, user_id=record.user_id)
        sealed = SealedKey(key.key_id, key.created_ms, self._user_seal.close(key.key_id, key.secret.encode()))
        return key, replace(record, keys=(*record.keys, sealed))


def no_such_account(account: str) -> RequestError:
    return RequestError("NoSuchAccount", f"there is no account {account}")


def _check_key(record: UserRecord, key_id: str) -> None:
    if all(key.key_id != key_id for key in record.keys):
        raise RequestError("NoSuchEntity", f"user {record.name} has no key {key_id}")


def _listed_user(record: UserRecord) -> User:
    keys = tuple([UserKey(key.key_id, key.created_ms, key.active) for key in record.keys])
    return User(record.account, record.name, record.user_id, record.created_ms, record.active, keys)


def _new_user_id() -> str:
    return "AIDA" + "".join([secrets.choice(KEY_ALPHABET) for _ in range(USER_ID_LENGTH - 4)])
