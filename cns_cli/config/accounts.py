"""Compares the accounts of a file, with their names, users and keys, with a store of accounts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from cns_cli.activity import run_recorded
from cns_cli.config.changes import Action, Change, Planned, ValueChange
from cns_cli.config.document import Document
from cns_cli.config.model import Account, Key
from cns_cli.config.source import ConfigError, Path, Problem, Refused
from cns_common.aws.auth.access_keys import AccessKey
from cns_common.aws.auth.accounts import AccountStore
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.errors import RequestError


class AccountPlanner:
    """Each change is recorded as an administrative act."""

    def __init__(self, document: Document, settings: Settings, store: AccountStore, clock: Clock) -> None:
        self._source = document.source
        self._accounts = {} if document.problems else document.file.accounts
        self._settings = settings
        self._store = store
        self._clock = clock
        self._problems: list[Problem] = []
        self._planned: list[Planned] = []
        self._known: dict[str, AccessKey] = {}

    async def plan(self) -> list[Planned]:
        """The changes, accounts before their users. Raises ConfigError."""
        self._known = {key.key_id: key for key in await self._store.keys()}
        found = {one.account: one for one in await self._store.accounts()}
        for number, account in self._accounts.items():
            path, there = ("accounts", number), found.get(number)
            if there is None and account.key is None:
                self._refuse(path, "is a new account: give its key")
            elif account.key is not None and (key := self._new_key((*path, "key"), number, "", account.key)):
                value = ValueChange("key", "" if there is None else " ".join(there.key_ids), key.key_id)
                act = "CreateAccount" if there is None else "RotateKeys"
                self._add((*path, "key"), "account", number, number, value, act, partial(self._store.put_root_key, key))
            name = "" if there is None else there.name
            if account.name is not None and account.name != name:
                call = partial(self._store.set_owner_name, number, account.name)
                value = ValueChange("name", name, account.name)
                self._add((*path, "name"), "account", number, number, value, "ChangeOwner", call)
            await self._plan_users(number, account, exists=there is not None)
        if self._problems:
            raise ConfigError(self._source.name, self._problems)
        return self._planned

    async def _plan_users(self, number: str, account: Account, *, exists: bool) -> None:
        known = {one.name.lower(): one for one in await self._store.users(number)} if exists else {}
        for name, user in account.users.items():
            path: Path = ("accounts", number, "users", name)
            there = known.get(name.lower())
            is_new, ids = there is None, set() if there is None else {key.key_id for key in there.keys}
            if is_new and not user.keys:
                self._refuse(path, "is a new user: give a key")
            for place, given in enumerate(user.keys):
                key = self._new_key((*path, "keys", place), number, name, given)
                if key is not None and given.id not in ids:  # else it is there, but is not active
                    store = self._store.add_user if is_new else self._store.add_user_key
                    call = partial(store, number, name, key.created_ms, key)
                    act = "AddUser" if is_new else "AddUserKey"
                    value = ValueChange("key", "", key.key_id)
                    self._add((*path, "keys", place), "user", name, number, value, act, call)
                    is_new = False

    def _new_key(self, path: Path, number: str, user: str, given: Key) -> AccessKey | None:
        """The key, if its holder does not have it."""
        key = AccessKey(number, given.id, given.secret, self._clock.now_ms(), user)
        known = self._known.setdefault(given.id, key)
        if (known.account, known.user.lower(), known.secret) != (number, user.lower(), given.secret):
            self._refuse(path, f"{given.id} is the key of another, or has another secret")
        return key if known is key else None

    def _add(
        self,
        path: Path,
        kind: str,
        name: str,
        account: str,
        value: ValueChange,
        act: str,
        call: Callable[[], Awaitable[Any]],
    ) -> None:
        async def step() -> None:
            detail = f"account {account}, {value.name} {value.after}" + (f", user {name}" if kind == "user" else "")
            try:
                await run_recorded(self._settings, self._clock, act, call(), lambda _: detail)
            except RequestError as error:
                problem = self._source.problem(path, f"{error.code}: {error.message}")
                raise Refused(self._source.name, [problem]) from None

        action: Action = "create" if act in ("CreateAccount", "AddUser") else "change"
        self._planned.append(Planned(Change(action, kind, name, account, [value]), [step]))

    def _refuse(self, path: Path, text: str) -> None:
        self._problems.append(self._source.problem(path, text))
