"""Portal links: who may make them, how many, and what a token must be to open a subscription."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cns.authorization import Access
from cns.limits import Quotas
from cns.portal.links import LIFE_S_MAX, LINKS_MAX, TOKEN_PREFIX, PortalLinks
from cns_common.aws.call import Call
from cns_common.clock import Clock
from cns_common.durations import HOUR_S
from cns_common.errors import RequestError
from tests.integration.sns.cns_support import ACCOUNT, OTHER, Rig, call, open_rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, Clock(test=True), Quotas()) as rig:
        yield rig


def links_of(rig: Rig, key: bytes = bytes(32), is_key: Callable[[str], bool] = lambda _: True) -> PortalLinks:
    access = Access(rig.service.topic_cache, rig.subscriptions, rig.clock)
    return PortalLinks(rig.subscriptions, access, rig.clock, key, is_key)


async def test_a_subscription_has_so_many_links_that_have_not_ended(rig: Rig) -> None:
    arn, links = await rig.queue_subscription(await rig.topic()), links_of(rig)
    made = [await links.create(call(ACCOUNT), arn, HOUR_S) for _ in range(LINKS_MAX)]
    with pytest.raises(RequestError, match="20 portal links"):
        await links.create(call(ACCOUNT), arn, HOUR_S)
    await links.revoke(call(ACCOUNT), arn, made[0].link.id)
    await links.create(call(ACCOUNT), arn, 2 * HOUR_S)
    rig.clock.advance(HOUR_S * 1000)
    assert len(await links.list_links(call(ACCOUNT), arn)) == 1
    assert await links.open(made[1].token) is None
    await links.create(call(ACCOUNT), arn, LIFE_S_MAX)
    assert "PortalLinks" not in await rig.attributes(arn)


async def test_others_and_wrong_lives_are_refused(rig: Rig) -> None:
    arn, links = await rig.queue_subscription(await rig.topic()), links_of(rig)
    for life_s in (0, -1, LIFE_S_MAX + 1):
        with pytest.raises(RequestError, match="lives for"):
            await links.create(call(ACCOUNT), arn, life_s)
    made = await links.create(call(ACCOUNT), arn, HOUR_S)
    for refused in (
        links.create(call(OTHER), arn, HOUR_S),
        links.list_links(call(OTHER), arn),
        links.revoke(call(OTHER), arn, made.link.id),
    ):
        with pytest.raises(RequestError, match="AuthorizationError"):
            await refused
    with pytest.raises(RequestError, match="NotFound"):
        await links.create(call(ACCOUNT), arn[:-1] + ("0" if arn[-1] != "0" else "1"), HOUR_S)
    assert await links.open(made.token) is not None


async def test_a_token_opens_the_subscription_that_it_was_signed_for(rig: Rig, topic: str) -> None:
    first, second = await rig.queue_subscription(topic, "q1"), await rig.queue_subscription(topic, "q2")
    links = links_of(rig)
    made = [(await links.create(call(ACCOUNT), arn, HOUR_S)).token for arn in (first, second)]
    contents, macs = zip(*[token.removeprefix(TOKEN_PREFIX).split(".") for token in made], strict=True)
    opened = await links.open(made[0])
    assert opened is not None and opened.subscription.arn == first
    for forged in (
        f"{TOKEN_PREFIX}{contents[0]}.{macs[1]}",
        made[0] + "A",
        made[0].removeprefix(TOKEN_PREFIX),
        "portal..",
    ):
        assert await links.open(forged) is None
    assert await links_of(rig, b"k" * 32).open(made[0]) is None, "another store's key"
    await rig("Unsubscribe", SubscriptionArn=first)
    assert await links.open(made[0]) is None


async def test_a_link_ends_with_the_key_that_made_it(rig: Rig) -> None:
    arn, keys = await rig.queue_subscription(await rig.topic()), {"old", "new"}
    links = links_of(rig, is_key=keys.__contains__)
    old = [await links.create(by_key("old"), arn, HOUR_S) for _ in range(LINKS_MAX - 1)]
    new = await links.create(by_key("new"), arn, HOUR_S)
    assert await links.open(old[0].token) is not None
    keys.remove("old")
    assert [await links.open(made.token) for made in old] == [None] * len(old)
    assert await links.open(new.token) is not None
    again = await links.create(by_key("new"), arn, HOUR_S)
    listed = await links.list_links(by_key("new"), arn)
    assert [link.id for link in listed] == [new.link.id, again.link.id], "the others take no room"


async def test_a_link_ends_with_the_token_that_made_it(rig: Rig) -> None:
    arn, links = await rig.queue_subscription(await rig.topic()), links_of(rig)
    until_ms = rig.clock.now_ms() + 5_000
    made = await links.create(call(ACCOUNT), arn, HOUR_S, until_ms)
    assert made.link.expires_ms == until_ms
    shorter = await links.create(call(ACCOUNT), arn, 1, until_ms)
    assert shorter.link.expires_ms < until_ms
    rig.clock.advance(5_000)
    assert await links.open(made.token) is None


def by_key(key_id: str) -> Call:
    made = call(ACCOUNT)
    made.caller = replace(made.caller, key_id=key_id)
    return made
