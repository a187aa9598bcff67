"""What a command applies a file to: the caller's account, or all accounts of a store, over the API of the service."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cns.client.values import Caller
from cns_backend.urls import address_of
from cns_cli.config.accounts import AccountPlanner
from cns_cli.config.changes import Planned, plan_file
from cns_cli.config.document import Document
from cns_cli.config.export import Exporter
from cns_cli.config.resources import Calls, NoCalls, only_account
from cns_cli.output import refuse
from cns_cli.remote.connection import EXIT_REFUSED, EXIT_UNREACHABLE, StoredProfile, UsageError
from cns_common.aws.auth.accounts import AccountStore
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.errors import RequestError

KEY_WAIT_S, KEY_WAITS_MAX = 0.5, 60
"""Until each process of the service knows a new key."""


class RemoteCalls:
    """As the owner of an access key. No answer ends the command."""

    def __init__(self, account: str, profile: StoredProfile, *, waits_max: int = 0) -> None:
        """`profile` has a region. A refused key is tried again `waits_max` times."""
        self.account = account
        self.region = profile.region
        self._url = profile.url
        self._waits_max = waits_max
        self._checked = False
        try:
            session = botocore.session.get_session()
            self._clients = {
                service: session.create_client(
                    service,
                    region_name=self.region,
                    endpoint_url=profile.url,
                    aws_access_key_id=profile.key_id,
                    aws_secret_access_key=profile.secret,
                    config=Config(parameter_validation=False),  # the service refuses in AWS's words
                )
                for service in ("sqs", "sns", "sts")
            }
        except BotoCoreError as error:  # a profile or file of AWS's that cannot be read
            raise UsageError(str(error)) from None

    async def run(self, service: str, action: str, **params: Any) -> dict[str, Any]:
        if not self._checked:
            self._checked = True
            account = (await self.run("sts", "GetCallerIdentity"))["Account"]
            if account != self.account:  # --auth=off, or the store of another service
                refuse(f"{self._url} takes the key of account {self.account} for one of {account}", EXIT_REFUSED)
        waits = 0
        while True:
            try:
                answer: dict[str, Any] = getattr(self._clients[service], xform_name(action))(**params)
            except ClientError as error:
                refused = error.response["Error"]
                if refused["Code"] != "InvalidClientTokenId" or waits == self._waits_max:
                    raise RequestError(refused["Code"], refused["Message"]) from None
            except BotoCoreError as error:
                refuse(f"{self._url} does not answer: {error}", EXIT_UNREACHABLE)
            else:
                return answer
            waits += 1
            await asyncio.sleep(KEY_WAIT_S)


class OneAccount:
    """The account of the caller's key."""

    def __init__(self, profile: StoredProfile, caller: Caller) -> None:
        if not profile.key_id:
            raise UsageError("a token cannot sign calls: use an access key")
        profile.region = profile.region or caller.region
        self._calls = RemoteCalls(caller.account, profile)

    async def plan_accounts(self, document: Document) -> list[Planned]:
        """Refuses a file that names other accounts."""
        for number in document.file.accounts:
            if number != self._calls.account:
                text = f"the key is of account {self._calls.account}, and the file is also for {number}: see --accounts"
                refuse(text, EXIT_REFUSED)
            print("cns: names, users and keys of accounts stay as they are without --accounts", file=sys.stderr)
        return []

    async def plan_resources(self, document: Document, *, prune: bool) -> list[Planned]:
        return await plan_file(document, lambda _: self._calls, prune=prune)

    async def export(self) -> tuple[dict[str, Any], list[str]]:
        """The file, and notes of what is not in it."""
        exporter = Exporter(self._calls)
        return await exporter.contents(), exporter.notes


class AllAccounts:
    """The accounts of a store, with their names, users and keys. Calls have the keys of their roots."""

    def __init__(self, store: AccountStore, settings: Settings, clock: Clock, given: StoredProfile) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        address = address_of(settings)
        self._url, self._region = given.url or address.url, given.region or address.region

    async def plan_accounts(self, document: Document) -> list[Planned]:
        return await AccountPlanner(document, self._settings, self._store, self._clock).plan()

    async def plan_resources(self, document: Document, *, prune: bool) -> list[Planned]:
        return await plan_file(document, await self._calls_of(), prune=prune)

    async def export(self) -> tuple[dict[str, Any], list[str]]:
        """As of `OneAccount`. No keys are in it."""
        calls_of, found, notes = await self._calls_of(), {}, ["keys are not in the export"]
        for one in await self._store.accounts():
            exporter = Exporter(calls_of(one.account))
            users: dict[str, Any] = {user.name: {} for user in await self._store.users(one.account)}
            named = {"name": one.name} if one.name else {}
            found[one.account] = named | ({"users": users} if users else {}) | await exporter.contents()
            notes += exporter.notes
        return {"accounts": found}, notes

    async def _calls_of(self) -> Callable[[str], Calls]:
        keys = {key.key_id: key for key in await self._store.keys()}
        roots = {one.account: key for one in await self._store.accounts() for key in map(keys.get, one.key_ids) if key}

        def calls_of(number: str) -> Calls:
            account = number or only_account(list(roots))
            key = roots.get(account)
            if key is None:
                return NoCalls(account, self._region)
            profile = StoredProfile(self._url, key.key_id, key.secret, region=self._region)
            return RemoteCalls(account, profile, waits_max=KEY_WAITS_MAX)

        return calls_of
