"""The contract of the stores of mobile push and SMS, for every driver."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from cns.push.model import MobileEndpoint, PlatformApplication
from cns.sms.numbers import NumberState, SandboxNumber
from cns.stores.cassandra import mobile_endpoints as cassandra_store
from cns.stores.cassandra import mobile_schema as cassandra_schema
from cns_common.cassandra.session import Cassandra
from tests.integration.sns.stores.cns_stores import (
    ACCOUNT,
    OTHER,
    REGION,
    Stores,
    mobile_endpoint,
)

NUMBERS = [f"+1555{number:07}" for number in range(60)]


async def all_endpoints(stores: Stores, application: PlatformApplication, n: int = 100) -> list[MobileEndpoint]:
    found = await stores.mobile_endpoints.page(application.id, "", n)
    while found and (page := await stores.mobile_endpoints.page(application.id, found[-1].id, n)):
        found += page
    return found


def with_token(endpoint: MobileEndpoint, token: str) -> MobileEndpoint:
    return replace(endpoint, version=endpoint.version + 1, attributes={**endpoint.attributes, "Token": token})


# -- applications -----------------------------------------------------------------------------------------------------


async def test_an_application_is_created_once(stores: Stores) -> None:
    first = await stores.application()
    assert await stores.application() == first
    assert await stores.platforms.get(first.arn) == first
    assert first.secrets == {"PlatformCredential": "the secret"}
    assert await stores.platforms.get(f"{first.arn}x") is None


async def test_an_application_is_replaced_only_at_its_version(stores: Stores) -> None:
    first = await stores.application()
    changed = replace(first, version=2, secrets={"PlatformCredential": "new"})
    assert await stores.platforms.replace(changed, 1)
    assert not await stores.platforms.replace(replace(first, version=2), 1)
    assert not await stores.platforms.replace(replace(changed, id="another"), 2)
    assert await stores.platforms.get(first.arn) == changed


async def test_pages_of_applications(stores: Stores) -> None:
    created = [await stores.application(f"a{number}") for number in range(5)]
    await stores.application("other", OTHER)
    await stores.platforms.delete(created[1].arn)
    assert await stores.platforms.page(ACCOUNT, REGION, "", 3) == [created[0], created[2], created[3]]
    assert await stores.platforms.page(ACCOUNT, REGION, created[3].arn, 3) == [created[4]]
    assert await stores.platforms.page(ACCOUNT, "us-east-1", "", 3) == []


async def test_a_deleted_application_is_gone_and_its_endpoints_are_swept(stores: Stores) -> None:
    gone, stays = await stores.application("gone"), await stores.application("stays")
    for number in range(7):
        await stores.mobile_endpoint(gone, f"{number}")
    created = await stores.mobile_endpoint(stays)
    assert await stores.mobile_endpoints.sweep(0, 100) == 0
    assert await stores.platforms.delete(gone.arn)
    assert not await stores.platforms.delete(gone.arn)
    assert await stores.platforms.get(gone.arn) is None
    anew = await stores.application("gone")
    assert await stores.mobile_endpoints.page(anew.id, "", 9) == []
    assert await stores.mobile_endpoints.create(mobile_endpoint(gone, "late")) is None
    assert await stores.mobile_endpoints.sweep(0, 4) == 4
    assert len(await stores.mobile_endpoints.page(gone.id, "", 9)) == 3
    while await stores.mobile_endpoints.sweep(0, 4):
        pass
    assert await stores.mobile_endpoints.page(gone.id, "", 9) == []
    assert await stores.mobile_endpoints.get(created.arn) == created
    assert await stores.platforms.get(anew.arn) == anew


# -- endpoints --------------------------------------------------------------------------------------------------------


async def test_a_token_has_one_endpoint(stores: Stores) -> None:
    application, other = await stores.application(), await stores.application("other")
    first = await stores.mobile_endpoint(application)
    assert await stores.mobile_endpoint(application) == first
    assert await stores.mobile_endpoint(other) != first
    assert await stores.mobile_endpoints.get(first.arn) == first
    assert await stores.mobile_endpoints.get(first.arn.replace("/app/", "/other/")) is None
    drafts = [mobile_endpoint(application, "raced") for _ in range(6)]
    created = await asyncio.gather(*[stores.mobile_endpoints.create(draft) for draft in drafts])
    assert len({endpoint.id for endpoint in created if endpoint}) == 1
    assert len(await all_endpoints(stores, application)) == 2


async def test_an_endpoint_is_replaced_only_at_its_version(stores: Stores) -> None:
    application = await stores.application()
    first, second = await stores.mobile_endpoint(application, "one"), await stores.mobile_endpoint(application, "two")
    moved = with_token(first, "three")
    assert await stores.mobile_endpoints.replace(moved, 1)
    assert not await stores.mobile_endpoints.replace(with_token(first, "four"), 1)
    assert await stores.mobile_endpoints.get(first.arn) == moved
    assert await stores.mobile_endpoints.token_taken(with_token(second, "three"))
    assert not await stores.mobile_endpoints.token_taken(with_token(first, "three"))
    assert not await stores.mobile_endpoints.token_taken(with_token(second, "four"))
    assert not await stores.mobile_endpoints.replace(with_token(second, "three"), 1), "it belongs to the first number"
    assert await stores.mobile_endpoints.replace(with_token(second, "one"), 1)
    assert (await stores.mobile_endpoint(application, "three")).id == first.id
    assert (await stores.mobile_endpoint(application, "one")).id == second.id
    assert (await stores.mobile_endpoint(application, "two")).id not in (first.id, second.id)


async def test_a_deleted_endpoint_frees_its_token(stores: Stores) -> None:
    application = await stores.application()
    first = await stores.mobile_endpoint(application)
    assert await stores.mobile_endpoints.delete(first.arn)
    assert not await stores.mobile_endpoints.delete(first.arn)
    assert await stores.mobile_endpoints.get(first.arn) is None
    assert not await stores.mobile_endpoints.replace(replace(first, version=2), 1)
    assert (await stores.mobile_endpoint(application)).id != first.id


async def test_pages_of_endpoints(stores: Stores) -> None:
    application = await stores.application()
    created = sorted(
        [await stores.mobile_endpoint(application, f"{number}") for number in range(30)], key=lambda one: one.id
    )
    for n in (1, 7, 29, 30, 31):
        assert await all_endpoints(stores, application, n) == created


# -- SMS --------------------------------------------------------------------------------------------------------------


async def test_sms_attributes(stores: Stores) -> None:
    assert await stores.sms.attributes(ACCOUNT, REGION) == {}
    await stores.sms.set_attributes(ACCOUNT, REGION, {"a": "1", "b": "2"})
    await stores.sms.set_attributes(ACCOUNT, REGION, {"b": "", "c": "3", "d": ""})
    await stores.sms.set_attributes(ACCOUNT, REGION, {})
    assert await stores.sms.attributes(ACCOUNT, REGION) == {"a": "1", "c": "3"}
    assert await stores.sms.attributes(ACCOUNT, "us-east-1") == await stores.sms.attributes(OTHER, REGION) == {}


async def test_opting_out(stores: Stores) -> None:
    for number in [*NUMBERS, NUMBERS[0]]:
        await stores.sms.opt_out(ACCOUNT, number)
    assert await stores.sms.opted_out(ACCOUNT, NUMBERS[0])
    assert not await stores.sms.opted_out(OTHER, NUMBERS[0])
    for n in (1, 7, 60, 61):
        found = await stores.sms.page_of_opted_out(ACCOUNT, "", n)
        while page := await stores.sms.page_of_opted_out(ACCOUNT, found[-1], n):
            assert len(page) <= n
            found += page
        assert sorted(found) == NUMBERS
    await stores.sms.opt_in(ACCOUNT, NUMBERS[0])
    await stores.sms.opt_in(ACCOUNT, NUMBERS[0])
    assert not await stores.sms.opted_out(ACCOUNT, NUMBERS[0])


async def test_sandbox_numbers(stores: Stores) -> None:
    number = SandboxNumber(account=ACCOUNT, region=REGION, number=NUMBERS[0], password="123456")  # an example
    verified = replace(number, state=NumberState.VERIFIED, version=2, password="")
    assert await stores.sms.put_sandbox_number(number, 0)
    assert not await stores.sms.put_sandbox_number(verified, 0)
    assert not await stores.sms.put_sandbox_number(verified, 2)
    assert await stores.sms.sandbox_number(ACCOUNT, REGION, NUMBERS[0]) == number
    assert await stores.sms.put_sandbox_number(verified, 1)
    second = replace(number, number=NUMBERS[1])
    assert await stores.sms.put_sandbox_number(second, 0)
    assert await stores.sms.page_of_sandbox(ACCOUNT, REGION, "", 9) == [verified, second]
    assert await stores.sms.page_of_sandbox(ACCOUNT, REGION, NUMBERS[0], 9) == [second]
    assert await stores.sms.page_of_sandbox(ACCOUNT, "us-east-1", "", 9) == []
    assert await stores.sms.remove_sandbox_number(ACCOUNT, REGION, NUMBERS[0])
    assert not await stores.sms.remove_sandbox_number(ACCOUNT, REGION, NUMBERS[0])
    assert await stores.sms.sandbox_number(ACCOUNT, REGION, NUMBERS[0]) is None


# -- Cassandra only ---------------------------------------------------------------------------------------------------


async def test_an_incomplete_endpoint_is_completed(cassandra_stores: Stores, session: Cassandra) -> None:
    stores = cassandra_stores
    application = await stores.application()
    halfway = await stores.mobile_endpoint(application)
    await session.run_schema("TRUNCATE endpoints_of_application")
    assert await all_endpoints(stores, application) == []
    assert await stores.mobile_endpoint(application) == halfway
    assert await all_endpoints(stores, application) == [halfway]


async def test_the_claim_of_a_stale_token_is_taken_over(cassandra_stores: Stores, session: Cassandra) -> None:
    stores = cassandra_stores
    application = await stores.application()
    gone = await stores.mobile_endpoint(application, "gone")
    await session.run_conditional(cassandra_schema.DELETE_ENDPOINT, gone.id, 1)
    assert await all_endpoints(stores, application) == [], "the list removed the dangling entry"
    assert (await stores.mobile_endpoint(application, "gone")).id != gone.id
    moved = await stores.mobile_endpoint(application, "moved")
    claim = (moved.application_id, cassandra_store._claim_key(with_token(moved, "claimed"))[1], moved.id)
    assert await session.run_conditional(cassandra_schema.CLAIM, *claim), "as before a change that never came"
    assert (await stores.mobile_endpoint(application, "claimed")).id != moved.id
    assert await stores.mobile_endpoints.get(moved.arn) == moved


async def test_an_incomplete_deletion_has_no_effect(cassandra_stores: Stores, session: Cassandra) -> None:
    stores = cassandra_stores
    application = await stores.application()
    endpoint = await stores.mobile_endpoint(application)
    await session.run(cassandra_schema.MARK_DROPPED, application.id, application.arn)
    assert await stores.mobile_endpoints.sweep(0, 9) == 0
    assert await all_endpoints(stores, application) == [endpoint]
