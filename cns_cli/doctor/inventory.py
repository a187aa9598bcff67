"""All accounts, regions, queues and topics that a service has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

import apsw

from cns_backend.backend import Backend
from cns_backend.urls import address_of
from cns_common.arn import parse_arn
from cns_common.configuration.settings import Settings
from cns_common.sqlite.database import STORE_FILE

PAGE = 500


class Place(NamedTuple):
    account: str
    region: str


async def places(settings: Settings, backend: Backend, regions: Iterable[str]) -> list[Place]:
    """The places of queues and topics. A cluster lists no regions: the service's and `regions` stand for them."""
    found = _stored(settings) if settings.store == "embedded" else set()
    accounts = [one.account for one in await backend.accounts.accounts()]
    if settings.auth == "off":
        accounts.append(settings.account_id)
    known = {region for region in (address_of(settings).region, settings.region, *regions) if region}
    return sorted(found | {Place(account, region) for account in accounts for region in known})


def _stored(settings: Settings) -> set[Place]:
    """Return the places of queues and topics in the embedded store, read by a connection of its own."""
    try:
        connection = apsw.Connection(str(settings.data / STORE_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.Error:
        return set()
    try:
        connection.set_busy_timeout(1_000)
        queues = connection.execute("SELECT DISTINCT account, region FROM queues").fetchall()
        arns = [parse_arn(arn) for (arn,) in connection.execute("SELECT arn FROM topics")]
    except apsw.Error:  # the service has the store alone: its disk is full
        return set()
    finally:
        connection.close()
    return {Place(str(a), str(r)) for a, r in queues} | {Place(one.account, one.region) for one in arns if one}


async def topic_arns(backend: Backend, place: Place) -> AsyncIterator[str]:
    after = ""
    while True:
        page = await backend.topics.list_arns(place.account, place.region, after, PAGE)
        for arn in page:
            yield arn
        if len(page) < PAGE:
            return
        after = page[-1]


async def queue_names(backend: Backend, place: Place) -> AsyncIterator[str]:
    after = ""
    while True:
        page = await backend.queues.list_names(place.account, place.region, "", after, PAGE)
        for name in page:
            yield name
        if len(page) < PAGE:
            return
        after = page[-1]
