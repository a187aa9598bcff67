"""Accounts, users and access keys, for operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Response

from cns.rest.models import RemovedItems
from cns_backend.account_removal import AccountRemoval, RemovalStep
from cns_common.aws.auth.access_keys import AccessKey as StoredKey
from cns_common.aws.auth.access_keys import described_key
from cns_common.aws.auth.accounts import Account as StoredAccount
from cns_common.aws.auth.accounts import AccountStore
from cns_common.aws.call import USER_NAME
from cns_common.clock import Clock
from cns_server.rest.calls import RestCall, RestCalls
from cns_server.rest.dependencies import Begun
from cns_server.rest.models import (
    AccessKey,
    Account,
    AccountChange,
    AccountList,
    Activity,
    NewUser,
    User,
    UserKey,
    UserList,
)
from cns_server.rest.problems import Problem
from cns_server.rest.queues import AccountId
from cns_server.rest.sign_in.password_hash_limiter import NewPasswords

UserName = Annotated[str, Path(pattern=f"^{USER_NAME.pattern}$")]
KeyId = Annotated[str, Path(pattern="^[A-Z0-9]{16,128}$")]
Done = TypeVar("Done")


class AccountRoutes:
    def __init__(
        self,
        calls: RestCalls,
        accounts: AccountStore,
        removal: AccountRemoval,
        passwords: NewPasswords,
        clock: Clock,
    ) -> None:
        self._calls = calls
        self._accounts = accounts
        self._removal = removal
        self._passwords = passwords
        self._clock = clock

    def add_to(self, router: APIRouter) -> None:
        account, user = "/accounts/{account}", "/accounts/{account}/users/{user}"
        add = router.add_api_route
        add("/accounts", self.list_accounts, methods=["GET"], response_model=AccountList)
        add("/accounts", self.create_account, methods=["POST"], status_code=201, response_model=AccessKey)
        add(account, self.show_account, methods=["GET"], response_model=Account)
        add(account, self.change_account, methods=["PATCH"], status_code=204, response_class=Response)
        add(
            account,
            self.delete_account,
            methods=["DELETE"],
            response_model=RemovedItems,
            responses={202: {"model": RemovedItems, "description": "There is more: repeat the request."}},
        )
        add(account + "/keys", self.rotate_keys, methods=["POST"], status_code=201, response_model=AccessKey)
        add(account + "/users", self.list_users, methods=["GET"], response_model=UserList)
        add(account + "/users", self.add_user, methods=["POST"], status_code=201, response_model=AccessKey)
        add(user, self.change_user, methods=["PATCH"], status_code=204, response_class=Response)
        add(user, self.delete_user, methods=["DELETE"], status_code=204, response_class=Response)
        add(user + "/keys", self.add_user_key, methods=["POST"], status_code=201, response_model=AccessKey)
        add(user + "/keys/{key_id}", self.change_user_key, methods=["PATCH"], status_code=204, response_class=Response)
        add(user + "/keys/{key_id}", self.delete_user_key, methods=["DELETE"], status_code=204, response_class=Response)

    async def list_accounts(self, rest: Begun) -> AccountList:
        """All accounts, oldest first."""
        self._calls.check_operator(rest)
        return AccountList(accounts=[_account(one) for one in await self._all()])

    async def create_account(self, rest: Begun) -> AccessKey:
        """A new account and its root's first key."""
        return _key(await self._made(rest, "", "CreateAccount", lambda now_ms: self._accounts.create(now_ms)))

    async def show_account(self, rest: Begun, account: AccountId) -> Account:
        """An account with the ids of its root's keys."""
        self._calls.check_administrator(rest, account)
        for one in await self._all():
            if one.account == account:
                return _account(one)
        raise Problem(404, "NoSuchAccount", f"There is no account {account}.")

    async def change_account(self, rest: Begun, account: AccountId, body: AccountChange) -> None:
        """Give the owner a name, and a password to sign in to the pages. A new password ends all its sessions."""
        detail = [] if body.name is None else [f"name {body.name}"]
        if body.password is not None:
            detail.append(f"password {'set' if body.password else 'removed'}")
        await self._act(
            rest, account, "ChangeOwner", lambda now_ms: self._change_owner(account, body, now_ms), ", ".join(detail)
        )

    async def delete_account(self, rest: Begun, account: AccountId, response: Response) -> RemovedItems:
        """Delete an account with its keys, users, queues, topics, subscriptions and platform applications.

        Its keys are refused at once. A request deletes a part: 202 until there is nothing left, then 200. Repeated
        after a crash it goes on. Only operators may.
        """

        def remove(_: int) -> Awaitable[RemovalStep]:
            if rest.principal.caller.account == account:
                raise Problem(403, "AccessDenied", "An account cannot delete itself: ask an operator.")
            self._calls.check_operator(rest)
            return self._removal.step(account)

        step = await self._act(rest, account, "DeleteAccount", remove)
        response.status_code = 200 if step.complete else 202
        return RemovedItems(
            complete=step.complete,
            users=step.users,
            queues=step.queues,
            topics=step.topics,
            subscriptions=step.subscriptions,
            applications=step.applications,
        )

    async def rotate_keys(self, rest: Begun, account: AccountId) -> AccessKey:
        """A new root key. The root's former keys, and what they signed, are refused from now on."""
        return _key(
            await self._made(rest, account, "RotateKeys", lambda now_ms: self._accounts.rotate(account, now_ms))
        )

    async def list_users(self, rest: Begun, account: AccountId) -> UserList:
        """The account's users with their keys, without secrets."""
        self._calls.check_administrator(rest, account)
        return UserList(
            users=[
                User(
                    name=one.name,
                    user_id=one.user_id,
                    created_at=one.created_ms,
                    active=one.active,
                    keys=[UserKey(key_id=key.key_id, created_at=key.created_ms, active=key.active) for key in one.keys],
                )
                for one in await self._accounts.users(account)
            ]
        )

    async def add_user(self, rest: Begun, account: AccountId, body: NewUser) -> AccessKey:
        """A new user and its first key."""
        return _key(
            await self._made(
                rest, account, "AddUser", lambda now_ms: self._accounts.add_user(account, body.name, now_ms)
            )
        )

    async def change_user(self, rest: Begun, account: AccountId, user: UserName, body: Activity) -> None:
        """Calls with the keys of an inactive user are refused."""
        detail = f"user {user}, {_activity(body)}"
        await self._act(
            rest, account, "ChangeUser", lambda _: self._accounts.set_user_active(account, user, body.active), detail
        )

    async def delete_user(self, rest: Begun, account: AccountId, user: UserName) -> None:
        """Delete a user and its keys."""
        await self._act(
            rest, account, "DeleteUser", lambda _: self._accounts.delete_user(account, user), f"user {user}"
        )

    async def add_user_key(self, rest: Begun, account: AccountId, user: UserName) -> AccessKey:
        """A second key of a user."""
        return _key(
            await self._made(
                rest, account, "AddUserKey", lambda now_ms: self._accounts.add_user_key(account, user, now_ms)
            )
        )

    async def change_user_key(
        self, rest: Begun, account: AccountId, user: UserName, key_id: KeyId, body: Activity
    ) -> None:
        """Calls with an inactive key, and what it signed, are refused."""
        detail = f"user {user}, key {key_id}, {_activity(body)}"
        await self._act(
            rest,
            account,
            "ChangeUserKey",
            lambda _: self._accounts.set_user_key_active(account, user, key_id, body.active),
            detail,
        )

    async def delete_user_key(self, rest: Begun, account: AccountId, user: UserName, key_id: KeyId) -> None:
        """Delete a key. The tokens and signed URLs that it signed are refused from now on."""
        await self._act(
            rest,
            account,
            "DeleteUserKey",
            lambda _: self._accounts.delete_user_key(account, user, key_id),
            f"user {user}, key {key_id}",
        )

    async def _made(
        self, rest: RestCall, account: str, action: str, make: Callable[[int], Awaitable[StoredKey]]
    ) -> StoredKey:
        """A new key. The record has its id, and its user."""
        return await self._act(rest, account, action, make, described_key)

    async def _act(
        self,
        rest: RestCall,
        account: str,
        action: str,
        work: Callable[[int], Awaitable[Done]],
        detail: str | Callable[[Done], str] = "",
    ) -> Done:
        """Do what an administrator of the account may do, with the present time, and record it; also a refusal."""

        async def checked() -> Done:
            self._calls.check_administrator(rest, account)
            return await work(self._clock.now_ms())

        return await self._calls.act(rest, action, checked(), account, detail)

    async def _change_owner(self, account: str, change: AccountChange, now_ms: int) -> None:
        """A password that is refused changes nothing."""
        hashed = await self._passwords.hash(account, change.password) if change.password else ""
        if change.name is not None:
            await self._accounts.set_owner_name(account, change.name)
        if change.password is not None:
            await self._accounts.set_password(account, hashed, now_ms)

    async def _all(self) -> list[StoredAccount]:
        return await self._accounts.accounts()


def _activity(body: Activity) -> str:
    return "active" if body.active else "inactive"


def _account(one: StoredAccount) -> Account:
    return Account(
        account=one.account,
        created_at=one.created_ms,
        key_ids=[key_id for key_id in one.key_ids if key_id],
        name=one.name,
        has_password=one.has_password,
    )


def _key(key: StoredKey) -> AccessKey:
    return AccessKey(account=key.account, key_id=key.key_id, secret=key.secret, user=key.user)
