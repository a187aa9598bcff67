"""Where this service is, as told to those who have no request whose Host could tell."""

from __future__ import annotations

import contextlib
from urllib.parse import urlsplit

import msgspec

from cns_common.configuration.settings import Settings

ADDRESS_FILE = "address.json"
_PLACING = frozenset({"host", "port", "public_url", "region", "tls_cert"})
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  # compared with, not bound


def base_url(settings: Settings) -> str:
    """What URLs in notifications begin with, without a slash at the end."""
    return settings.public_url.rstrip("/") or local_url(settings)


class Address(msgspec.Struct, frozen=True):
    """Where a service is, and the region of calls that name none."""

    url: str
    region: str
    store: str


def write_address(settings: Settings) -> None:
    """For commands on the same data directory, which are not told the options of `cns up`."""
    with contextlib.suppress(OSError):  # a full disk keeps nobody from starting
        (settings.data / ADDRESS_FILE).write_bytes(msgspec.json.encode(_configured(settings)))


def address_of(settings: Settings) -> Address:
    """As the settings have it, where any of them is given; else as the service wrote it at its last start from this
    data directory."""
    configured = _configured(settings)
    if settings.model_fields_set.isdisjoint(_PLACING):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            written = msgspec.json.decode((settings.data / ADDRESS_FILE).read_bytes(), type=Address)
            return written if written.store == configured.store else configured
    return configured


def _configured(settings: Settings) -> Address:
    return Address(base_url(settings), settings.region, settings.store)


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
