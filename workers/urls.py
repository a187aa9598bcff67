"""Where this service is, as told to those who have no request whose Host could tell."""

from __future__ import annotations

from urllib.parse import urlsplit

from common.settings import Settings

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  # compared with, not bound


def base_url(settings: Settings) -> str:
    """What URLs in notifications begin with, without a slash at the end."""
    return settings.public_url.rstrip("/") or local_url(settings)


def mail_sender(settings: Settings) -> str:
    """The address that mails come from."""
    host = urlsplit(base_url(settings)).hostname or ""
    named = not (":" in host or host.replace(".", "").isdigit())
    return settings.mail_from or f"no-reply@{host if named else 'localhost'}"


def local_url(settings: Settings) -> str:
    """How this machine's own processes reach it."""
    scheme = "https" if settings.tls_cert else "http"
    host = "localhost" if settings.host in _EVERYWHERE else settings.host
    return f"{scheme}://[{host}]:{settings.port}" if ":" in host else f"{scheme}://{host}:{settings.port}"
