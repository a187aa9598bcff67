"""Mails handed over to a real relay: by which connection, and what its answers mean."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.endpoints.smtp import SmtpRequest, SmtpSender
from cns.mail.message import Mail, to_bytes
from cns_common.configuration.smtp_url import read_smtp_url
from cns_common.tls import client_context
from tests.mailing import new_address
from tests.own_exim import OwnExim

SENDER = "no-reply@sns.example.com"
MAIL = Mail(
    sender_name="Shop",
    sender=SENDER,
    recipient="",
    subject="Grüße",
    sent_ms=1_700_000_000_000,
    id="m.s",
    text="hello\n.\n..two dots\n",
)

Make = Callable[..., SmtpSender]


@pytest.fixture(scope="module")
def exim() -> Iterator[OwnExim]:
    with OwnExim(mails_per_connection=3) as server:
        yield server


@pytest.fixture(scope="module")
def plain_exim() -> Iterator[OwnExim]:
    with OwnExim(start_tls=False) as server:
        yield server


@pytest.fixture
async def sender(exim: OwnExim) -> SmtpSender:
    return making(exim.url, exim.ca_file)


def making(url: str, ca_file: Path | None, *, connections: int = 2, timeout_s: float = 10.0) -> SmtpSender:
    return SmtpSender(
        read_smtp_url(url),
        connections=connections,
        timeout_s=timeout_s,
        verify=client_context(ca_file),
        hello="sns.example.com",
    )


def to(address: str) -> SmtpRequest:
    return SmtpRequest(SENDER, address, to_bytes(replace(MAIL, recipient=address)))


async def arrived(exim: OwnExim, address: str) -> str:
    mail = await asyncio.to_thread(exim.next, address)
    return str(mail.get_content()).replace("\r\n", "\n")


async def test_a_mail_arrives_whole(exim: OwnExim, sender: SmtpSender) -> None:
    address = new_address()
    outcome = await sender.send(to(address))
    assert isinstance(outcome, Delivered) and outcome.status == 250 and outcome.response.startswith("OK id=")
    mail = await asyncio.to_thread(exim.next, address)
    assert str(mail.get_content()).replace("\r\n", "\n") == MAIL.text
    assert mail["Subject"] == "Grüße"
    assert mail["Return-path"] == f"<{SENDER}>"
    await sender.close()


@pytest.mark.parametrize("begins", ["smtp", "smtps"])
async def test_by_either_way_to_tls(exim: OwnExim, begins: str) -> None:
    sender = making(exim.url if begins == "smtp" else exim.tls_url, exim.ca_file)
    address = new_address()
    assert isinstance(await sender.send(to(address)), Delivered)
    assert await arrived(exim, address) == MAIL.text
    await sender.close()


async def test_a_connection_is_used_again_until_the_relay_has_enough_of_it(exim: OwnExim, sender: SmtpSender) -> None:
    """Which is after three mails here, and costs none of them."""
    before = exim.connections()
    addresses = [new_address() for _ in range(8)]
    for address in addresses:
        assert isinstance(await sender.send(to(address)), Delivered)
    for address in addresses:
        assert await arrived(exim, address) == MAIL.text
    assert exim.connections() - before == 3
    await sender.close()


async def test_there_are_no_more_connections_than_allowed(exim: OwnExim) -> None:
    sender = making(exim.url, exim.ca_file, connections=2)
    outcomes = await asyncio.gather(*[sender.send(to(new_address())) for _ in range(9)])
    assert all(isinstance(outcome, Delivered) for outcome in outcomes), outcomes
    assert len(sender.idle) <= 2
    await sender.close()


@pytest.mark.parametrize(
    ("answer", "cause", "permanent"),
    [
        ("550 no such mailbox", Cause.MAIL_REFUSED, True),
        ("550 5.1.1 no such mailbox", Cause.MAIL_REFUSED, True),
        ("552 5.2.2 mailbox full", Cause.MAIL_REFUSED, True),
        ("553 5.1.3 no such syntax", Cause.MAIL_REFUSED, True),
        ("550 5.7.1 you are blocked by this recipient", Cause.MAIL_REFUSED, True),
        ("450 4.2.0 greylisted", Cause.MAIL_REFUSED, False),
        ("452 4.3.1 out of storage", Cause.MAIL_REFUSED, False),
        ("530 say who you are", Cause.MAIL_RELAY, False),
        ("535 5.7.8 not you", Cause.MAIL_RELAY, False),
        ("550 relay not permitted", Cause.MAIL_RELAY, False),
        ("554 5.7.1 Relay access denied", Cause.MAIL_RELAY, False),
        ("550 5.4.5 daily sending quota exceeded", Cause.MAIL_RELAY, False),
        ("503 not now", Cause.MAIL_RELAY, False),
        ("554 5.3.0 system trouble", Cause.MAIL_RELAY, False),
    ],
)
async def test_what_a_relay_says_of_a_recipient(
    exim: OwnExim, sender: SmtpSender, answer: str, cause: Cause, permanent: bool
) -> None:
    address = new_address()
    (exim.put_off if answer.startswith("4") else exim.refuse)(address, answer)
    outcome = await sender.send(to(address))
    code, _, words = answer.partition(" ")
    assert outcome == failed(outcome, cause=cause, permanent=permanent, status=int(code), text=answer, response=words)
    assert isinstance(await sender.send(to(new_address())), Delivered), "the connection is as good as before"
    await sender.close()


async def test_what_a_relay_says_of_a_mail(exim: OwnExim, sender: SmtpSender) -> None:
    address = new_address()
    exim.refuse_mail(address, "552 5.3.4 larger than allowed")
    outcome = await sender.send(to(address))
    assert outcome == failed(outcome, cause=Cause.MAIL_REFUSED, permanent=True, status=552)
    await sender.close()


async def test_what_a_relay_says_of_the_sender_is_the_operators_to_mend(exim: OwnExim, sender: SmtpSender) -> None:
    exim.refuse_sender("stranger@example.com", "550 5.7.1 not yours")
    outcome = await sender.send(SmtpRequest("stranger@example.com", new_address(), b"\r\n"))
    assert outcome == failed(outcome, cause=Cause.MAIL_RELAY, permanent=False, status=550)
    await sender.close()


@pytest.mark.parametrize(
    ("changed", "trusts", "cause", "says"),
    [
        (("p%40ss", "wrong"), True, Cause.MAIL_RELAY, "535"),
        (("", ""), False, Cause.TLS, "CERTIFICATE_VERIFY_FAILED"),
        (("smtp://", "smtps://"), True, Cause.TLS, ""),
        (("cns:p%40ss%3Aword%2F1@", ""), True, Cause.MAIL_RELAY, "530"),
    ],
    ids=["wrong password", "unknown authority", "no TLS there", "no login"],
)
async def test_what_hinders_all_mails_is_tried_again(
    exim: OwnExim, changed: tuple[str, str], trusts: bool, cause: Cause, says: str
) -> None:
    sender = making(exim.url.replace(*changed), exim.ca_file if trusts else None)
    outcome = await sender.send(to(new_address()))
    assert outcome == failed(outcome, cause=cause, permanent=False)
    assert isinstance(outcome, Failed) and says in outcome.text
    assert "p@ss" not in outcome.text
    await sender.close()


async def test_a_relay_that_is_away_or_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        outcome = await making(f"smtp://127.0.0.1:{port}", None, timeout_s=0.2).send(to(new_address()))
        assert outcome == failed(outcome, cause=Cause.TIMEOUT, permanent=False)
    outcome = await making(f"smtp://127.0.0.1:{port}", None).send(to(new_address()))
    assert outcome == failed(outcome, cause=Cause.CONNECTION, permanent=False)


@pytest.mark.parametrize(
    ("starttls", "with_login", "cause"),
    [
        ("require", False, Cause.TLS),
        ("require", True, Cause.TLS),
        ("auto", True, Cause.TLS),
        ("auto", False, Cause.MAIL_RELAY),
        ("off", False, Cause.MAIL_RELAY),
        ("off", True, None),
    ],
)
async def test_a_relay_without_tls(plain_exim: OwnExim, starttls: str, with_login: bool, cause: Cause | None) -> None:
    """A password is not sent to it unless its operator says so; without one it takes nothing."""
    url = plain_exim.url if with_login else f"smtp://localhost:{plain_exim.port}"
    sender = making(f"{url}?starttls={starttls}", None)
    outcome = await sender.send(to(new_address()))
    await sender.close()
    assert (outcome.cause if isinstance(outcome, Failed) else None) is cause


def failed(outcome: Outcome, **members: object) -> Outcome:
    """The outcome with these members; what is not named is as it is."""
    assert isinstance(outcome, Failed), outcome
    return replace(outcome, **members)
