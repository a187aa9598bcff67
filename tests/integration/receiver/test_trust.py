"""The fault receiver confirms subscriptions and checks signatures, and requests only URLs of allowed hosts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from cns.delivery.envelope import (
    ConfirmationNotice,
    MessageType,
    signed_confirmation,
    signed_envelope,
)
from cns.delivery.signing import Signer, new_identity
from cns.notification import Notification
from cns.stores.contract import SigningIdentity
from cns_receiver.fetch import Fetcher, FetchRefused
from cns_receiver.receiver import ReceiverOptions
from tests.integration.receiver.receiver_support import (
    SUBSCRIPTION,
    TOPIC,
    Client,
    SenderService,
    start_receiver,
    start_sender_service,
)

NOW_MS = 1_800_000_000_000
CONFIRMED = f"<ConfirmSubscriptionResult><SubscriptionArn>{SUBSCRIPTION}</SubscriptionArn></ConfirmSubscriptionResult>"


@pytest.fixture
async def service() -> AsyncIterator[SenderService]:
    async with start_sender_service() as opened:
        opened.answers["/"] = lambda: web.Response(text=CONFIRMED)
        yield opened


# -- confirmation ------------------------------------------------------------------------------------------------------


async def test_a_subscription_is_confirmed_automatically(client: Client, service: SenderService) -> None:
    assert await client.post_confirmation("a", service.subscribe_url()) == 200
    shown = await client.show("a", confirmed=1)
    (asked,) = shown["confirmation_requests"]
    assert (asked["state"], asked["subscription_arn"], asked["topic_arn"]) == ("confirmed", SUBSCRIPTION, TOPIC)
    assert (shown["confirmed"], shown["confirmations"], shown["received"]) == (1, 1, 0)
    assert service.requested_paths == [f"/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=t"]
    assert await client.ids("a") == {}


@pytest.mark.parametrize("settings", [{"confirm": "manual"}, {"confirm": "never"}])
async def test_confirming_can_be_left_to_a_person(
    client: Client, service: SenderService, settings: dict[str, str]
) -> None:
    assert await client.put_page("a", "settings", settings) == 204
    await client.post_confirmation("a", service.subscribe_url())
    async with client.session.post(client.url + "/endpoint/a/confirm") as answer:
        assert answer.status == 202
    if settings["confirm"] == "manual":
        assert (await client.show("a", confirmed=1))["confirmed"] == 1
    else:
        assert (await client.show("a"))["confirmation_requests"] == []
        assert service.requested_paths == []


async def test_an_answer_that_fails_confirms_nothing(client: Client, service: SenderService) -> None:
    await client.put_page("a", "behaviour", {"status": 500, "on": "all", "times": 1})
    await client.post_confirmation("a", service.subscribe_url())
    assert (await client.show("a"))["confirmation_requests"] == []
    await client.post_confirmation("a", service.subscribe_url())
    assert (await client.show("a", confirmed=1))["confirmed"] == 1


async def test_a_confirmation_that_failed_can_be_tried_again(client: Client, service: SenderService) -> None:
    service.answers["/"] = lambda: web.Response(status=302, headers={"location": "/elsewhere"})
    await client.post_confirmation("a", service.subscribe_url())
    await client.post_confirmation("a", "http://127.0.0.1:1/?Action=ConfirmSubscription", "c-2")
    requests = (await client.show("a", confirmations_failed=2))["confirmation_requests"]
    assert [asked["state"] for asked in requests] == ["failed", "failed"]
    assert requests[0]["reason"] == "HTTP 302"
    service.answers["/"] = lambda: web.Response(text=CONFIRMED)
    async with client.session.post(client.url + "/endpoint/a/confirm"):
        pass
    assert (await client.show("a", confirmed=1))["confirmed"] == 1
    assert all(path.startswith("/?") for path in service.requested_paths)


@pytest.mark.parametrize(
    "subscribe_url",
    [
        "http://example.com/?Action=ConfirmSubscription",
        "http://127.0.0.1.example.com/?Action=ConfirmSubscription",
        "http://127.0.0.1@example.com/?Action=ConfirmSubscription",
        "http://169.254.169.254/?Action=ConfirmSubscription",
        "http://127.0.0.1:1/latest?Action=DeleteTopic",
        "file:///etc/passwd?Action=ConfirmSubscription",
        "http://[::1/?Action=ConfirmSubscription",
        "/?Action=ConfirmSubscription",
        "",
    ],
)
async def test_other_urls_are_not_visited(client: Client, subscribe_url: str) -> None:
    await client.post_confirmation("a", subscribe_url)
    (asked,) = (await client.show("a", confirmations_failed=1))["confirmation_requests"]
    assert asked["state"] == "refused"
    assert asked["reason"]


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://127.0.0.1:6059/", True),
        ("https://127.8.8.8/", True),
        ("http://LOCALHOST/", True),
        ("http://[::1]:80/", True),
        ("http://cns.test:6059/", True),
        ("http://CNS.test/", True),
        ("http://x.cns.test/", False),
        ("http://cns.test.example/", False),
        ("http://cns.test@example/", False),
        ("http://10.0.0.1/", False),
        ("http://0.0.0.0/", False),
        ("http://127.1/", False),
        ("http://127.0.0.1%2f.example/", False),
        ("gopher://127.0.0.1/", False),
        ("http://:80/", False),
        ("http://127.0.0.1:99999/", False),
    ],
)
def test_hosts_that_may_be_asked(url: str, allowed: bool) -> None:
    fetcher = Fetcher(["cns.test"])
    if allowed:
        assert str(fetcher.check(url))
    else:
        with pytest.raises(FetchRefused):
            fetcher.check(url)


# -- signatures --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def identity() -> SigningIdentity:
    return new_identity(NOW_MS)


@pytest.fixture
def signer(identity: SigningIdentity, service: SenderService) -> Signer:
    signer = Signer(identity)
    service.answers[f"/{signer.certificate_name}"] = lambda: web.Response(body=identity.certificate_pem)
    service.answers["/junk.pem"] = lambda: web.Response(text="no certificate")
    return signer


def _signed(signer: Signer, base_url: str, **changed: object) -> bytes:
    """A notification as the service posts it, with members changed after it was signed."""
    notification = Notification(
        id="m-1", topic_arn=TOPIC, texts={"default": "grüße"}, subject="s", timestamp_ms=NOW_MS, signature_version="2"
    )
    body = signed_envelope(notification, "http", signer, base_url).body("http://unsubscribe/")
    return json.dumps({**json.loads(body), **changed}).encode()


@pytest.mark.parametrize(
    ("changed", "signature"),
    [
        ({}, "good"),
        ({"UnsubscribeURL": "is not signed"}, "good"),
        ({"Message": "another"}, "bad"),
        ({"Message": 5}, "bad"),
        ({"Signature": "AAAA"}, "bad"),
        ({"Signature": "ä"}, "bad"),
        ({"SignatureVersion": "3"}, "bad"),
        ({"Type": "Unknown"}, "bad"),
        ({"SigningCertURL": "http://example.com/SimpleNotificationService-1.pem"}, "bad"),
        ({"SigningCertURL": "{service}/?Action=ConfirmSubscription"}, "bad"),
        ({"SigningCertURL": "{service}/absent.pem"}, "unchecked"),
        ({"SigningCertURL": "{service}/junk.pem"}, "unchecked"),
        ({"SigningCertURL": None, "Signature": None}, "unsigned"),
    ],
)
async def test_signatures_are_checked(
    client: Client, service: SenderService, signer: Signer, changed: dict[str, object], signature: str
) -> None:
    changed = {
        name: value.replace("{service}", service.url) if isinstance(value, str) else value
        for name, value in changed.items()
    }
    assert await client.notify("a", "m-1", _signed(signer, service.url, **changed)) == 200
    shown = await client.show("a", **{signature: 1})
    assert [message["signature"] for message in shown["messages"]] == [signature]
    assert {name: count for name, count in shown["signature"].items() if count} == {signature: 1}


@pytest.mark.parametrize("body", [b"", b"raw", b"[1]", b'{"a":1}', b"\xff", b"[" * 100_000, b'{"Signature":"\\ud800"}'])
async def test_an_invalid_envelope_counts_as_unsigned(client: Client, body: bytes) -> None:
    await client.notify("a", body=body)
    assert (await client.show("a", unsigned=1))["messages"][0]["signature"] == "unsigned"


async def test_a_certificate_is_fetched_once(client: Client, service: SenderService, signer: Signer) -> None:
    for _ in range(3):
        await client.notify("a", "m-1", _signed(signer, service.url))
    await client.notify("a", "m-1", _signed(signer, service.url, SigningCertURL=f"{service.url}/absent.pem"))
    await client.notify("a", "m-1", _signed(signer, service.url, SigningCertURL=f"{service.url}/absent.pem"))
    shown = await client.show("a", good=3, unchecked=2)
    assert shown["signature"] == {"good": 3, "bad": 0, "unsigned": 0, "unchecked": 2}
    assert service.requested_paths == [f"/{signer.certificate_name}", "/absent.pem"]


async def test_signatures_of_confirmations_are_checked(client: Client, service: SenderService, signer: Signer) -> None:
    confirmation = ConfirmationNotice(
        type=MessageType.SUBSCRIPTION_CONFIRMATION,
        id="c-1",
        token="t",
        topic_arn=TOPIC,
        subscription_arn=SUBSCRIPTION,
        timestamp_ms=NOW_MS,
    )
    async with client.session.post(
        client.url + "/endpoint/a", data=signed_confirmation(confirmation, signer, service.url)
    ):
        pass
    await client.notify("a", "m-1", b"raw")
    shown = await client.show("a", confirmed=1, unsigned=1)
    assert [message["signature"] for message in shown["messages"]] == ["good", "unsigned"]
    assert shown["signature"] == {"good": 0, "bad": 0, "unsigned": 1, "unchecked": 0}


@pytest.mark.parametrize("query", ["a?verify=off", "a"])
async def test_verifying_can_be_left_out(service: SenderService, signer: Signer, query: str) -> None:
    async with start_receiver(ReceiverOptions(verify="off" if query == "a" else "on")) as client:
        await client.notify(query, "m-1", _signed(signer, service.url))
        shown = await client.show("a", unchecked=1)
    assert (shown["signature"]["unchecked"], service.requested_paths) == (1, [])


async def test_no_certificate_is_fetched_from_other_hosts(client: Client, signer: Signer) -> None:
    await client.notify("a", "m-1", _signed(signer, "http://192.0.2.1"))
    assert (await client.show("a", bad=1))["signature"]["bad"] == 1
