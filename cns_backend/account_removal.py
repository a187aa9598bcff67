"""Deletes an account with all that it has: keys and users first, so that nothing is added meanwhile.

Each step deletes a bounded number of things and can be repeated after a crash: the account exists until nothing else of
it is left. Events, delivery logs, and the numbers that opted out of SMS are not deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from cns_backend.backend import Backend
from cns_common.aws.auth.users import no_such_account
from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.errors import RequestError
from cqs.service import QueueService

STEP_ITEMS = 100
AT_ONCE = 10


class RemovalStep(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the items that one step deleted. Repeat the step until it is `complete`."""

    complete: bool
    users: int = 0
    queues: int = 0
    topics: int = 0
    subscriptions: int = 0
    applications: int = 0

    @property
    def items(self) -> int:
        return self.users + self.queues + self.topics + self.subscriptions + self.applications


class AccountRemoval:
    def __init__(self, backend: Backend, queues: QueueService) -> None:
        self._backend = backend
        self._queues = queues

    async def step(self, account: str) -> RemovalStep:
        """Delete up to `STEP_ITEMS` of each kind, and the account once nothing is left. Raises RequestError for an
        account that does not exist, or the service's own."""
        await self._revoke_root(account)
        users = await self._delete_users(account)
        step = msgspec.structs.replace(await self.empty(account), users=users)
        if step.items:
            return step
        await self._backend.accounts.delete(account)
        return RemovalStep(complete=True)

    async def empty(self, account: str) -> RemovalStep:
        """Delete up to `STEP_ITEMS` of each kind of what the account owns."""
        return RemovalStep(
            complete=False,
            queues=await self._delete_queues(account),
            topics=await self._delete_topics(account),
            subscriptions=await self._delete_subscriptions(account),
            applications=await self._delete_applications(account),
        )

    async def _revoke_root(self, account: str) -> None:
        """End the root's key and, with its password, its sessions in the pages."""
        if account == INTERNAL_ACCOUNT:
            raise RequestError("ValidationError", "the service's own account cannot be deleted")
        accounts, now_ms = self._backend.accounts, self._backend.clock.now_ms()
        found = next((one for one in await accounts.accounts() if one.account == account), None)
        if found is None:
            raise no_such_account(account)
        if found.has_password:
            await accounts.set_password(account, "", now_ms)
        await accounts.rotate(account, now_ms)  # the new key is not returned

    async def _delete_users(self, account: str) -> int:
        names = [user.name for user in await self._backend.accounts.users(account)][:STEP_ITEMS]
        for name in names:  # not at once: each deletion makes all processes reload the keys
            await self._backend.accounts.delete_user(account, name)
        return len(names)

    async def _delete_queues(self, account: str) -> int:
        async def delete(region: str, name: str) -> None:
            view = await self._queues.cache.find((account, region, name))
            if view is not None:
                try:
                    await self._queues.queues.delete(view)
                except RequestError as error:  # deleted meanwhile
                    if error.code != "QueueDoesNotExist":
                        raise

        names: list[tuple[str, str]] = []
        for region in await self._backend.queues.regions(account):
            found = await self._backend.queues.list_names(account, region, "", "", STEP_ITEMS - len(names))
            names += [(region, name) for name in found]
            if len(names) >= STEP_ITEMS:
                break
        await _each(delete, names)
        return len(names)

    async def _delete_topics(self, account: str) -> int:
        arns: list[str] = []
        for region in await self._backend.topics.regions(account):
            arns += await self._backend.topics.list_arns(account, region, "", STEP_ITEMS)
        await _each(self._delete_topic, [(arn,) for arn in arns[:STEP_ITEMS]])
        return len(arns[:STEP_ITEMS])

    async def _delete_topic(self, arn: str) -> None:
        backend = self._backend
        topic = await backend.topics.get(arn)
        for replay in await backend.replays.of_topic(arn):
            await backend.replays.remove(replay.subscription_arn)
        await backend.topics.delete(arn)
        if topic is not None and topic.archive is not None:
            await backend.archives.drop(topic.archive.id)

    async def _delete_subscriptions(self, account: str) -> int:
        """Delete the subscriptions of the account. A topic's own sweep deletes those to its own topics as well; either
        may come first."""
        store = self._backend.subscriptions
        arns: list[str] = []
        for region in await store.regions(account):
            arns += [one.arn for one in await store.page_of_owner(account, region, "", STEP_ITEMS)]
        await _each(self._delete_subscription, [(arn,) for arn in arns[:STEP_ITEMS]])
        return len(arns[:STEP_ITEMS])

    async def _delete_subscription(self, arn: str) -> None:
        await self._backend.replays.remove(arn)
        await self._backend.subscriptions.remove(arn)

    async def _delete_applications(self, account: str) -> int:
        store = self._backend.platforms
        arns: list[str] = []
        for region in await store.regions(account):
            arns += [one.arn for one in await store.page(account, region, "", STEP_ITEMS)]
        for arn in arns[:STEP_ITEMS]:
            await store.delete(arn)
        return len(arns[:STEP_ITEMS])


async def _each(work: Callable[..., Awaitable[None]], items: Iterable[tuple[Any, ...]]) -> None:
    """Do the work on each item, a few at a time."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(item: tuple[Any, ...]) -> None:
        async with turns:
            await work(*item)

    await asyncio.gather(*[one(item) for item in items])
