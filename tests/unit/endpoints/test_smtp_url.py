"""Valid forms of CNS_SMTP_URL; errors about an invalid one do not show its password."""

from __future__ import annotations

import pytest

from cns_backend.urls import mail_sender
from cns_common.configuration.settings import Settings, load_settings
from cns_common.configuration.smtp_url import SmtpRelay, read_smtp_url
from cns_common.errors import StartError

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "relay"),
    [
        ("smtp://relay", SmtpRelay(host="relay", port=587)),
        ("smtp://relay:25?starttls=off", SmtpRelay(host="relay", port=25, start_tls="off")),
        ("smtp://relay/?starttls=auto", SmtpRelay(host="relay", port=587, start_tls="auto")),
        ("smtps://relay", SmtpRelay(host="relay", port=465, tls=True)),
        ("smtp://[::1]:2525", SmtpRelay(host="::1", port=2525)),
        (
            "smtps://me%40x:p%40ss%3Aw%2F@relay:4465",
            SmtpRelay(host="relay", port=4465, tls=True, user="me@x", password="p@ss:w/"),
        ),
    ],
)
def test_what_a_url_says(url: str, relay: SmtpRelay) -> None:
    assert read_smtp_url(url) == relay


@pytest.mark.parametrize(
    "url",
    [
        f"http://me:{SECRET}@relay",
        f"me:{SECRET}@relay",
        f"smtp://me:{SECRET}@",
        f"smtp://me:{SECRET}@relay:port",
        f"smtp://me:{SECRET}@relay:99999",
        f"smtp://me:{SECRET}@relay/path",
        f"smtp://me:{SECRET}\u2100@relay",  # normalises to "a/c", which a host name may not contain
        f"smtp://me:{SECRET}@relay?starttls=never",
        f"smtp://me:{SECRET}@relay?tls=off",
        f"smtps://me:{SECRET}@relay?starttls=off",
    ],
)
def test_a_wrong_one_is_said_without_its_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CNS_SMTP_URL", url)
    with pytest.raises(StartError, match=r"^CNS_SMTP_URL=…: ") as caught:
        load_settings()
    assert SECRET not in str(caught.value)


def test_a_password_is_in_no_repr() -> None:
    url = f"smtp://me:{SECRET}@relay"
    assert SECRET not in repr(read_smtp_url(url)) + repr(Settings(smtp_url=url))


@pytest.mark.parametrize(
    ("settings", "sender"),
    [
        ({"public_url": "https://sns.example.com/"}, "no-reply@sns.example.com"),
        ({"public_url": "https://10.0.0.1"}, "no-reply@localhost"),
        ({"public_url": "http://[::1]:6059"}, "no-reply@localhost"),
        ({}, "no-reply@localhost"),
        ({"public_url": "https://sns.example.com", "mail_from": "news@example.com"}, "news@example.com"),
    ],
)
def test_who_mails_come_from(settings: dict[str, str], sender: str) -> None:
    assert mail_sender(Settings.model_validate(settings)) == sender
