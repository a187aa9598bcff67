"""The owner of an account: a name, and a password to sign in to the pages.

`OwnerStore` is shared by all account stores: a store reads and writes records. The hash of the password is sealed under
the master key. The secret that signs sessions is derived from this hash, and signs as the secret of an access key does.
So a new password ends all sessions of the former one, and everything that they signed."""

from __future__ import annotations

import hashlib
import hmac
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from cns_common.aws.auth.access_keys import AccessKey
from cns_common.aws.auth.users import no_such_account
from cns_common.errors import RequestError
from cns_common.sealing import Seal

OWNER_NAME = re.compile(r"(?!\d+\Z)[\w.,@+'-](?:[\w .,@+'-]{0,62}[\w.,@+'-])?")
"""Digits alone could be the number of another account."""
_KEY_ID_PREFIX = "CONSOLE"
_KEY_ID_DIGITS = 12
_DERIVED_KEY = b"cns-console"


class ConsoleLogin(msgspec.Struct, frozen=True):
    """The record that a sign-in with a password is checked against."""

    account: str
    password: str = ""
    """Its hash; '' if there is no password."""
    key: AccessKey | None = None
    """Signs sessions; None if there is no password."""


class OwnerRecord(NamedTuple):
    """An owner as it is stored. `sealed` is empty without a password."""

    account: str
    name: str
    sealed: bytes
    password_ms: int  # when the password was set


class OwnerStore(ABC):
    """The operations on owners. What a `_write_…` writes is durable when it returns."""

    def __init__(self, seal: Seal) -> None:
        self._owner_seal = seal

    # -- what a store implements --------------------------------------------------------------------------------------

    @abstractmethod
    async def _owners(self) -> Sequence[OwnerRecord]:
        """The owners that have a name or a password, of existing accounts."""

    @abstractmethod
    async def _owner(self, account: str) -> OwnerRecord | None:
        """One of `_owners`, without reading the others."""

    @abstractmethod
    async def _owners_named(self, folded: str) -> Sequence[OwnerRecord]:
        """Find those of `_owners` whose `folded_name` this is, without reading the others."""

    @abstractmethod
    async def _write_owner_name(self, account: str, name: str) -> bool:
        """Returns False when there is no such account."""

    @abstractmethod
    async def _write_password(self, account: str, sealed: bytes, now_ms: int) -> bool:
        """Returns False when there is no such account."""

    @abstractmethod
    async def _notify_key_change(self, account: str) -> None:
        """Make every process read the keys again."""

    # -- the operations -----------------------------------------------------------------------------------------------

    async def set_owner_name(self, account: str, name: str) -> None:
        """Two processes may give two accounts the same name at the same time. Then neither signs in by it."""
        if name and not OWNER_NAME.fullmatch(name):
            text = "An owner's name is 1 to 64 letters, digits, spaces within and . , @ + ' _ -, not digits alone."
            raise RequestError("ValidationError", text)
        if name and any(one.account != account for one in await self._owners_named(folded_name(name))):
            raise RequestError("EntityAlreadyExists", f"another account has the owner's name {name}")
        if not await self._write_owner_name(account, name):
            raise no_such_account(account)

    async def set_password(self, account: str, password_hash: str, now_ms: int) -> None:
        sealed = self._owner_seal.close(_label(account), password_hash.encode()) if password_hash else b""
        if not await self._write_password(account, sealed, now_ms):
            raise no_such_account(account)
        await self._notify_key_change(account)

    async def login(self, name: str) -> ConsoleLogin | None:
        owner = await self._owner(name) if name.isascii() and name.isdigit() else await self._only_named(name)
        if owner is None:
            return None
        if not owner.sealed:
            return ConsoleLogin(owner.account)
        return ConsoleLogin(owner.account, self._password(owner), self._session_key(owner))

    async def _session_keys(self) -> list[AccessKey]:
        return [self._session_key(one) for one in await self._owners() if one.sealed]

    # -- helpers ------------------------------------------------------------------------------------------------------

    async def _only_named(self, name: str) -> OwnerRecord | None:
        found = await self._owners_named(folded_name(name)) if OWNER_NAME.fullmatch(name) else []
        return found[0] if len(found) == 1 else None

    def _password(self, owner: OwnerRecord) -> str:
        return self._owner_seal.open(_label(owner.account), owner.sealed).decode()

    def _session_key(self, owner: OwnerRecord) -> AccessKey:
        """The key that signs the sessions of a password. Its id names the account and, by some digits, the password."""
        text = f"{owner.account} {self._password(owner)}"
        secret = hmac.digest(self._owner_seal.derived_key(_DERIVED_KEY), text.encode(), hashlib.sha256).hex()
        digits = hashlib.sha256(secret.encode()).hexdigest()[:_KEY_ID_DIGITS].upper()
        return AccessKey(owner.account, f"{_KEY_ID_PREFIX}{owner.account}{digits}", secret, owner.password_ms)


def _label(account: str) -> str:
    """The name that the password is sealed with."""
    return f"console-password/{account}"


def folded_name(name: str) -> str:
    """The name by which an owner is found: names that differ only in case are the same name."""
    return name.casefold()
