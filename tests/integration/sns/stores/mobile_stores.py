"""The stores of mobile push and SMS: embedded in a directory, the same through RPC, and in Cassandra."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cns.push.model import MobileEndpoint, PlatformApplication
from cns.stores.cassandra import CassandraMobileEndpointStore, CassandraPlatformStore, CassandraSmsStore
from cns.stores.embedded import EmbeddedMobileEndpointStore, EmbeddedPlatformStore, EmbeddedSmsStore
from cns.stores.mobile_contract import MobileEndpointStore, PlatformStore, SmsStore
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cns_common.ids import hex_id, uuid_text
from cns_common.rpc.protocol_proxy import handlers_of, methods_of, remote
from cns_common.rpc.rpc import Client, Server
from cns_common.sealing import MASTER_KEY_BYTES, Seal
from cns_common.sqlite.database import Database
from lab.harness.keyspace import emptied
from tests.integration.sns.stores.cns_stores import ACCOUNT, REGION

CONTRACTS: dict[str, type[Any]] = {"platforms": PlatformStore, "endpoints": MobileEndpointStore, "sms": SmsStore}
SEAL = Seal(b"k" * MASTER_KEY_BYTES)


@dataclass
class Stores:
    platforms: PlatformStore
    endpoints: MobileEndpointStore
    sms: SmsStore

    async def application(self, name: str = "app", account: str = ACCOUNT) -> PlatformApplication:
        return await self.platforms.create(draft_of(name, account))

    async def endpoint(self, application: PlatformApplication, token: str = "t") -> MobileEndpoint:
        entered = await self.endpoints.create(endpoint_of(application, token))
        assert entered is not None
        return entered

    async def all_endpoints(self, application: PlatformApplication, n: int = 100) -> list[MobileEndpoint]:
        found = await self.endpoints.page(application.id, "", n)
        while found and (page := await self.endpoints.page(application.id, found[-1].id, n)):
            found += page
        return found


def draft_of(name: str = "app", account: str = ACCOUNT) -> PlatformApplication:
    return PlatformApplication(
        id=hex_id(),
        account=account,
        region=REGION,
        platform="GCM",
        name=name,
        created_ms=1,
        attributes={"Enabled": "true"},
        secrets={"PlatformCredential": "the secret"},
    )


def endpoint_of(application: PlatformApplication, token: str) -> MobileEndpoint:
    return MobileEndpoint(
        id=uuid_text(),
        application_arn=application.arn,
        application_id=application.id,
        created_ms=1,
        attributes={"Token": token, "Enabled": "true"},
    )


def with_token(endpoint: MobileEndpoint, token: str) -> MobileEndpoint:
    return replace(endpoint, version=endpoint.version + 1, attributes={**endpoint.attributes, "Token": token})


@asynccontextmanager
async def open_stores_for(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[Stores]:
    """Open the stores of the driver that the fixture's parameter names."""
    if request.param == "cassandra":
        async with emptied(request.getfixturevalue("cassandra_address")) as cassandra:
            yield cassandra_stores(cassandra)
        return
    database = Database(directory, Clock())
    embedded = Stores(
        EmbeddedPlatformStore(database, SEAL), EmbeddedMobileEndpointStore(database), EmbeddedSmsStore(database)
    )
    database.start(asyncio.get_running_loop())
    try:
        if request.param == "embedded":
            yield embedded
        else:
            async with open_remote(embedded, directory / "socket") as stores:
                yield stores
    finally:
        await database.close()


def cassandra_stores(cassandra: Cassandra) -> Stores:
    return Stores(
        CassandraPlatformStore(cassandra, SEAL), CassandraMobileEndpointStore(cassandra), CassandraSmsStore(cassandra)
    )


@asynccontextmanager
async def open_remote(stores: Stores, path: Path) -> AsyncIterator[Stores]:
    methods = {
        name: method for prefix, contract in CONTRACTS.items() for name, method in methods_of(contract, prefix).items()
    }
    server = Server(methods)
    for prefix, store in vars(stores).items():
        server.answer(handlers_of(CONTRACTS[prefix], prefix, store))
    await server.start(path)
    client = Client(path, methods)
    await client.start()
    try:
        yield Stores(**{prefix: remote(contract, prefix, client) for prefix, contract in CONTRACTS.items()})
    finally:
        await client.close()
        await server.close()
