"""Behaviours of the fault receiver: its answers are as configured."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from cns.delivery.envelope import MessageType
from cns_receiver.receiver import ReceiverOptions
from tests.integration.receiver.receiver_support import Client, headers_of, start_receiver


@pytest.mark.parametrize(
    ("behaviour", "statuses"),
    [
        ({}, [200, 200]),
        ({"status": 503}, [503, 503, 503]),
        ({"status": 500, "times": 2}, [500, 500, 200, 200]),
        (
            {"status": 500, "times": 1, "then": {"status": 429, "times": 1, "then": {"status": 404}}},
            [500, 429, 404, 404],
        ),
        ({"status": 500, "chance": 0, "times": 1, "then": {"status": 429}}, [200, 429]),
        ({"redirect": "http://elsewhere/"}, [302]),
        ({"redirect": "http://elsewhere/", "status": 307}, [307]),
        ({"status": 500, "on": "confirmations"}, [200]),
        ({"status": 500, "on": "all"}, [500]),
        ({"status": 204}, [204, 204]),
    ],
)
async def test_answers_follow_the_behaviour(client: Client, behaviour: dict[str, object], statuses: list[int]) -> None:
    assert await client.put_page("a", "behaviour", behaviour) == 204
    assert [await client.notify("a") for _ in statuses] == statuses
    assert (await client.show("a"))["received"] == len(statuses)


@pytest.mark.parametrize(
    ("query", "statuses"),
    [
        ("status=500&times=2", [500, 500, 200]),
        ("tag=anything", [200]),
        ("confirm=never&verify=off", [200]),
        ("chance=1&status=503&delay_ms=1&on=all", [503]),
        ("stauts=500", [400]),
        ("status=99", [400]),
        ("hang=perhaps", [400]),
        ("confirm=perhaps", [400]),
        ("retry_after=1%0d%0aset-cookie:x", [400]),
        ("status=%ff", [400]),
    ],
)
async def test_a_behaviour_in_the_query(client: Client, query: str, statuses: list[int]) -> None:
    assert [await client.notify(f"a?{query}") for _ in statuses] == statuses


async def test_a_stored_behaviour_overrides_the_query(client: Client) -> None:
    await client.put_page("a", "behaviour", {"status": 503, "times": 5})
    assert await client.notify("a?status=500") == 503
    async with client.session.get(client.url + "/endpoint/a/behaviour") as answer:
        assert await answer.json() == {"status": 503, "times": 4}
    await client.delete("a/behaviour")
    assert await client.notify("a?status=500") == 500


@pytest.mark.parametrize(
    "behaviour",
    [
        {"status": 100},
        {"status": "500"},
        {"unknown": 1},
        {"chance": 1.1},
        {"times": 0},
        {"delay_ms": -1},
        {"then": {"status": 500}},
        {"hang": True, "refuse": True},
        {"body": "x", "body_bytes": 1},
        {"redirect": "a\r\nb"},
        {"retry_after": "5\n"},
        {"auth": {"scheme": "bearer", "user": "u", "password": "p"}},
        [],
        None,
    ],
)
async def test_an_invalid_behaviour_is_refused(client: Client, behaviour: object) -> None:
    assert await client.put_page("a", "behaviour", behaviour) == 400
    assert await client.notify("a") == 200


async def test_the_number_of_steps_is_limited(client: Client) -> None:
    for depth, status in ((99, 204), (100, 400), (50_000, 400)):
        text = '{"times":1,"then":' * depth + "{}" + "}" * depth
        async with client.session.put(client.url + "/endpoint/a/behaviour", data=text) as answer:
            assert answer.status == status, depth


async def test_headers_and_bodies_of_answers(client: Client) -> None:
    await client.put_page("a", "behaviour", {"status": 503, "retry_after": "5", "body": "später"})
    async with client.session.post(client.url + "/endpoint/a") as answer:
        assert (answer.headers["retry-after"], await answer.text()) == ("5", "später")
    await client.put_page("a", "behaviour", {"redirect": "http://elsewhere/x", "body_bytes": 70_000})
    async with client.session.post(client.url + "/endpoint/a", allow_redirects=False) as answer:
        assert (answer.headers["location"], len(await answer.read())) == ("http://elsewhere/x", 70_000)


async def test_chance_is_repeatable() -> None:
    async def run() -> list[int]:
        async with start_receiver(ReceiverOptions(seed=7)) as client:
            return [await client.notify("a?status=500&chance=0.5") for _ in range(20)]

    first = await run()
    assert set(first) == {200, 500}
    assert await run() == first


async def test_a_refusing_endpoint_closes_the_connection(client: Client) -> None:
    await client.put_page("a", "behaviour", {"refuse": True, "times": 1})
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.notify("a", "m-1")
    assert await client.notify("a", "m-1") == 200
    shown = await client.show("a")
    assert [message["status"] for message in shown["messages"]] == [0, 200]
    assert (shown["retries"], shown["duplicates"]) == (1, 0)


@pytest.mark.parametrize("behaviour", [{"hang": True, "times": 1}, {"delay_ms": 300_000, "times": 1}])
async def test_a_cancelled_request_is_not_accepted(client: Client, behaviour: dict[str, object]) -> None:
    await client.put_page("a", "behaviour", behaviour)
    cancelled = asyncio.create_task(client.notify("a", "m-1"))
    assert (await client.show("a", received=1))["accepted"] == 0
    cancelled.cancel()
    assert await client.notify("a", "m-1") == 200
    shown = await client.show("a", accepted=1)
    assert (shown["accepted"], shown["retries"], shown["duplicates"]) == (1, 1, 0)


async def test_a_late_answer_to_a_closed_connection_is_not_counted(client: Client) -> None:
    await client.put_page("a", "behaviour", {"delay_ms": 200})
    cancelled = asyncio.create_task(client.notify("a", "m-1"))
    await client.show("a", received=1)
    cancelled.cancel()
    assert await client.notify("a", "m-2") == 200  # answered after the first one's delay
    shown = await client.show("a")
    assert [message["status"] for message in shown["messages"]] == [0, 200]
    assert await client.ids("a", "?accepted=true") == {"m-2": 1}


async def test_a_slow_answer_counts_when_it_is_given(client: Client) -> None:
    slow = asyncio.create_task(client.notify("a?delay_ms=50", "m-1"))
    assert (await client.show("a", received=1))["accepted"] == 0
    assert await slow == 200
    assert (await client.show("a"))["messages"][0]["status"] == 200
    assert (await client.show("a"))["accepted"] == 1


async def test_by_default_behaviours_do_not_apply_to_confirmations() -> None:
    async with start_receiver(ReceiverOptions(confirm="never")) as client:
        assert await client.post_confirmation("a?status=500&times=1", "") == 200
        assert await client.notify("a?status=500&times=1") == 500
        shown = await client.show("a")
        assert (shown["received"], shown["confirmations"]) == (1, 1)
        await client.put_page("a", "behaviour", {"status": 503, "on": "confirmations"})
        assert await client.post_confirmation("a", "") == 503
        assert (await client.show("a"))["messages"][-1]["attempt"] == 2


@pytest.mark.parametrize("scheme", ["basic", "digest"])
async def test_credentials_are_required(scheme: str) -> None:
    credentials = {"scheme": scheme, "user": "ann", "password": "pässword"}
    async with start_receiver() as client:
        await client.put_page("a", "behaviour", {"auth": credentials, "status": 202})
        url = client.url + "/endpoint/a?tag=1"
        headers = headers_of(MessageType.NOTIFICATION, "m-1")
        async with client.session.post(url, headers=headers) as answer:
            assert answer.status == 401
            assert answer.headers["www-authenticate"].lower().startswith(scheme)
        for password, status in (("pässword", 202), ("wrong", 401)):
            if scheme == "basic":
                given = {"Authorization": aiohttp.encode_basic_auth("ann", password, "utf-8")}
                sent = client.session.post(url, headers=headers | given)
            else:
                sent = client.session.post(
                    url, headers=headers, middlewares=(aiohttp.DigestAuthMiddleware("ann", password),)
                )
            async with sent as answer:
                assert answer.status == status
        shown = await client.show("a")
        assert shown["accepted"] == 1


async def test_a_digest_is_good_for_its_nonce_only() -> None:
    behaviour = {"auth": {"scheme": "digest", "user": "ann", "password": "p"}}
    async with start_receiver() as client, start_receiver() as other:
        await client.put_page("a", "behaviour", behaviour)
        await other.put_page("a", "behaviour", behaviour)
        middlewares = (aiohttp.DigestAuthMiddleware("ann", "p"),)
        async with client.session.post(client.url + "/endpoint/a", middlewares=middlewares) as answer:
            assert answer.status == 200
        given = (await client.show("a"))["messages"][-1]["headers"]["authorization"]
        assert await client.notify("a", Authorization=given) == 200
        assert await client.notify("a?tag=1", Authorization=given) == 401
        assert await other.notify("a", Authorization=given) == 401


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Digest",
        "Digest x",
        'Digest nonce="',
        "Digest =,=",
        "Basic",
        "Basic \xff",
        'Digest uri="/", nonce=x, nc=, cnonce=, qop=, response=',
    ],
)
@pytest.mark.parametrize("scheme", ["basic", "digest"])
async def test_malformed_credentials_are_refused(client: Client, scheme: str, authorization: str) -> None:
    await client.put_page("a", "behaviour", {"auth": {"scheme": scheme, "user": "u", "password": "p"}})
    assert await client.notify("a", Authorization=authorization) == 401
