"""A service that sends mails through a mail server of its own, both with TLS, and the links in those mails."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from lab.harness.ports import free_port
from lab.harness.running import Up, running
from tests.acceptance.topics import Topic
from tests.private_servers.certificates import make_certificates
from tests.private_servers.own_exim import OwnExim

_HREF = re.compile(r'href="([^"]*\.html\?[^"]*)"')
_LINK = re.compile(r"^https?://\S+\.html\?\S+$", re.MULTILINE)


@dataclass(frozen=True)
class MailService:
    service: Up
    server: OwnExim

    def topic(self, **attributes: str) -> Topic:
        sns = self.service.client("sns")
        return Topic(sns, sns.create_topic(Name=f"t-{uuid.uuid4().hex[:12]}", Attributes=attributes)["TopicArn"])

    def subscribed(self, topic: Topic, address: str, protocol: str = "email", **attributes: str) -> str:
        """Subscribe a mailbox and confirm by the token in its mail. Returns the ARN."""
        arn: str = topic.sns.subscribe(
            TopicArn=topic.arn,
            Protocol=protocol,
            Endpoint=address,
            Attributes=attributes,
            ReturnSubscriptionArn=True,
        )["SubscriptionArn"]
        token = re.search(r"Token=([0-9a-f]+)", text_of(self.server.next(address)))
        assert token is not None
        topic.sns.confirm_subscription(TopicArn=topic.arn, Token=token[1])
        return arn


@contextmanager
def mailing(directory: Path) -> Iterator[MailService]:
    """A service on the test clock. `server.ca_file` is the authority of both certificates."""
    with OwnExim() as server, pytest.MonkeyPatch.context() as patched:
        trusted = directory / "trusted.pem"
        own = make_certificates(directory)
        trusted.write_bytes(own.read_bytes() + server.ca_file.read_bytes())
        port = free_port()
        url = f"https://localhost:{port}"
        patched.setenv("CNS_SMTP_URL", server.url)
        patched.setenv("CNS_GATEWAY_URL", "http://127.0.0.1:9")  # a closed port: mails do not go through the gateway
        patched.setenv("CNS_CA_BUNDLE", str(trusted))
        patched.setenv("CNS_MAIL_FROM", "no-reply@notifications.example.com")
        patched.setenv("CNS_PUBLIC_URL", url)
        tls = ("--tls-cert", str(directory / "server.pem"), "--tls-key", str(directory / "server.key"))
        with running(directory / "data", "--test-clock", *tls, port=port, url=url, ca_file=own) as service:
            yield MailService(service, server)


def new_address() -> str:
    return f"{uuid.uuid4().hex}@example.com"


def text_of(mail: EmailMessage) -> str:
    return _part(mail, "plain")


def html_of(mail: EmailMessage) -> str:
    return _part(mail, "html")


def button_of(mail: EmailMessage) -> str:
    """The URL of the link in the HTML part, which is also in the text part."""
    (address,) = _HREF.findall(html_of(mail))
    assert _LINK.findall(text_of(mail)) == [unescape(address)]
    return unescape(address)


def _part(mail: EmailMessage, subtype: Any) -> str:
    part = mail.get_body((subtype,))
    assert part is not None, mail
    return str(part.get_content())
