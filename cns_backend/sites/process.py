"""The site of a serving process: it waits until its site is active, and works until another site is to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from cns_common.configuration.settings import Settings
from cns_common.task_cancellation import cancel_and_wait

if TYPE_CHECKING:  # its driver is installed in the cluster form only
    from cns_backend.sites.membership import SiteMembership


@asynccontextmanager
async def open_site(settings: Settings, *, at_once: bool = False) -> AsyncIterator[SiteMembership | None]:
    """The membership of this process in its site; None with one site only. `at_once`: see `open_membership`."""
    sites = settings.site_replicas()
    if not sites or not (at_once or settings.store == "cassandra"):
        yield None
        return
    from cns_backend.sites.membership import open_membership
    from cns_common.cassandra.connection import cassandra_address

    own = settings.cassandra_data_centre
    (other,) = sites.keys() - {own}
    writes_each = settings.cassandra_site_writes == "each"
    address = cassandra_address(settings)
    async with open_membership(address, own, other, writes_each=writes_each, at_once=at_once) as membership:
        yield membership


async def wait_until_acting(site: SiteMembership | None, until: asyncio.Future[None]) -> bool:
    """Wait until this process may work; False if `until` was done before."""
    if site is not None:
        await _wait_for_either(site.acting, until)
        return site.acting.is_set() and not until.done()
    return not until.done()


def end_of_work(site: SiteMembership | None, until: asyncio.Future[None]) -> asyncio.Future[None]:
    """Completes when `until` does, or when this process must stop acting."""
    return until if site is None else asyncio.ensure_future(_wait_for_either(site.ended, until))


async def _wait_for_either(event: asyncio.Event, until: asyncio.Future[None]) -> None:
    waiting = asyncio.create_task(event.wait())
    either: set[asyncio.Future[Any]] = {waiting, until}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    await cancel_and_wait([waiting])
