"""Mails to a real relay: the connections, and the outcome of each answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.endpoints.smtp import SmtpRequest, SmtpSender
from cns.mail.message import Mail, to_bytes
from cns_common.configuration.smtp_url import read_smtp_url
from cns_common.tls import client_context
from tests.private_servers.mailing import new_address
from tests.private_servers.own_exim import OwnExim

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


@pytest.fixture(scope="module")
def exim() -> Iterator[OwnExim]:
    with OwnExim(mails_per_connection=3) as server:
        yield server


@pytest.fixture(scope="module")
def plain_exim() -> Iterator[OwnExim]:
    with OwnExim(start_tls=False) as server:
        yield server


@pytest.fixture
async def sender(exim: OwnExim) -> AsyncIterator[SmtpSender]:
    sender = smtp_sender(exim.url, exim.ca_file)
    yield sender
    await sender.close()


def smtp_sender(url: str, ca_file: Path | None, *, connections: int = 2, timeout_s: float = 10.0) -> SmtpSender:
    return SmtpSender(
        read_smtp_url(url),
        connections=connections,
        timeout_s=timeout_s,
        verify=client_context(ca_file),
        hello="sns.example.com",
    )


def mail_to(address: str) -> SmtpRequest:
    return SmtpRequest(SENDER, address, to_bytes(replace(MAIL, recipient=address)))


async def received_text(exim: OwnExim, address: str) -> str:
    mail = await asyncio.to_thread(exim.next, address)
    return str(mail.get_content()).replace("\r\n", "\n")


async def test_a_mail_arrives_unchanged(exim: OwnExim, sender: SmtpSender) -> None:
    address = new_address()
    request = mail_to(address)
    outcome = await sender.send(request)
    assert isinstance(outcome, Delivered) and outcome.status == 250 and outcome.response.startswith("OK id=")
    assert outcome.size_bytes == len(request.message)
    mail = await asyncio.to_thread(exim.next, address)
    assert str(mail.get_content()).replace("\r\n", "\n") == MAIL.text
    assert mail["Subject"] == "Grüße"
    assert mail["Return-path"] == f"<{SENDER}>"


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_starttls_and_implicit_tls(exim: OwnExim, scheme: str) -> None:
    sender = smtp_sender(exim.url if scheme == "smtp" else exim.tls_url, exim.ca_file)
    address = new_address()
    assert isinstance(await sender.send(mail_to(address)), Delivered)
    assert await received_text(exim, address) == MAIL.text
    await sender.close()


async def test_a_connection_is_reused_until_the_relay_closes_it(exim: OwnExim, sender: SmtpSender) -> None:
    """This relay closes the connection after three mails. No mail is lost."""
    before = exim.connections()
    addresses = [new_address() for _ in range(8)]
    for address in addresses:
        assert isinstance(await sender.send(mail_to(address)), Delivered)
    for address in addresses:
        assert await received_text(exim, address) == MAIL.text
    assert exim.connections() - before == 3


async def test_idle_smtp_connections_are_limited(exim: OwnExim) -> None:
    sender = smtp_sender(exim.url, exim.ca_file, connections=2)
    outcomes = await asyncio.gather(*[sender.send(mail_to(new_address())) for _ in range(9)])
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
async def test_answers_to_a_recipient(
    exim: OwnExim, sender: SmtpSender, answer: str, cause: Cause, permanent: bool
) -> None:
    address = new_address()
    (exim.put_off if answer.startswith("4") else exim.refuse)(address, answer)
    outcome = await sender.send(mail_to(address))
    code, _, words = answer.partition(" ")
    assert outcome == failure_like(
        outcome, cause=cause, permanent=permanent, status=int(code), text=answer, response=words
    )
    assert isinstance(await sender.send(mail_to(new_address())), Delivered), "the connection is still usable"


async def test_a_refused_mail(exim: OwnExim, sender: SmtpSender) -> None:
    address = new_address()
    exim.refuse_mail(address, "552 5.3.4 larger than allowed")
    outcome = await sender.send(mail_to(address))
    assert outcome == failure_like(outcome, cause=Cause.MAIL_REFUSED, permanent=True, status=552)


async def test_a_refused_sender_is_not_a_permanent_failure(exim: OwnExim, sender: SmtpSender) -> None:
    exim.refuse_sender("stranger@example.com", "550 5.7.1 not yours")
    outcome = await sender.send(SmtpRequest("stranger@example.com", new_address(), b"\r\n"))
    assert outcome == failure_like(outcome, cause=Cause.MAIL_RELAY, permanent=False, status=550)


@pytest.mark.parametrize(
    ("changed", "trusted", "cause", "text"),
    [
        (("p%40ss", "wrong"), True, Cause.MAIL_RELAY, "535"),
        (("", ""), False, Cause.TLS, "CERTIFICATE_VERIFY_FAILED"),
        (("smtp://", "smtps://"), True, Cause.TLS, ""),
        (("cns:p%40ss%3Aword%2F1@", ""), True, Cause.MAIL_RELAY, "530"),
    ],
    ids=["wrong password", "unknown authority", "no TLS there", "no login"],
)
async def test_failures_of_the_relay_are_retried(
    exim: OwnExim, changed: tuple[str, str], trusted: bool, cause: Cause, text: str
) -> None:
    sender = smtp_sender(exim.url.replace(*changed), exim.ca_file if trusted else None)
    outcome = await sender.send(mail_to(new_address()))
    assert outcome == failure_like(outcome, cause=cause, permanent=False)
    assert isinstance(outcome, Failed) and text in outcome.text
    assert "p@ss" not in outcome.text
    await sender.close()


async def test_an_unreachable_or_silent_relay() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        outcome = await smtp_sender(f"smtp://127.0.0.1:{port}", None, timeout_s=0.2).send(mail_to(new_address()))
        assert outcome == failure_like(outcome, cause=Cause.TIMEOUT, permanent=False)
    outcome = await smtp_sender(f"smtp://127.0.0.1:{port}", None).send(mail_to(new_address()))
    assert outcome == failure_like(outcome, cause=Cause.CONNECTION, permanent=False)


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
    """A password is sent without TLS only if the operator allows it. Without a login this relay accepts no mail."""
    url = plain_exim.url if with_login else f"smtp://localhost:{plain_exim.port}"
    sender = smtp_sender(f"{url}?starttls={starttls}", None)
    outcome = await sender.send(mail_to(new_address()))
    await sender.close()
    assert (outcome.cause if isinstance(outcome, Failed) else None) is cause


def failure_like(outcome: Outcome, **members: object) -> Outcome:
    """The failure `outcome` with `members` replaced."""
    assert isinstance(outcome, Failed), outcome
    return replace(outcome, **members)
