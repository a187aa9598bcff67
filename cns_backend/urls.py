"""The URL of this service in notifications, mails and commands, where no request gives a Host header."""

from __future__ import annotations

import contextlib
from urllib.parse import urlsplit

import msgspec

from cns_common.configuration.settings import Settings
from cns_common.errors import UNREADABLE

ADDRESS_FILE = "address.json"
_ADDRESS_SETTINGS = frozenset({"host", "port", "public_url", "region", "tls_cert"})
_ALL_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104  # compared with, not bound


def base_url(settings: Settings) -> str:
    """The beginning of URLs in notifications, without a slash at the end."""
    return settings.public_url.rstrip("/") or local_url(settings)


class Address(msgspec.Struct, frozen=True):
    """The URL of a service, and the region of calls without one."""

    url: str
    region: str
    store: str


def write_address(settings: Settings) -> None:
    """Store the address for commands on the same data directory, which do not know the options of `cns up`."""
    with contextlib.suppress(OSError):  # a full disk must not prevent the start
        (settings.data / ADDRESS_FILE).write_bytes(msgspec.json.encode(_configured(settings)))


def address_of(settings: Settings) -> Address:
    """The address by the settings if one of them is given, else the address of the last start from this data
    directory."""
    configured = _configured(settings)
    if settings.model_fields_set.isdisjoint(_ADDRESS_SETTINGS):
        with contextlib.suppress(OSError, *UNREADABLE):
            written = msgspec.json.decode((settings.data / ADDRESS_FILE).read_bytes(), type=Address)
            return written if written.store == configured.store else configured
    return configured


def _configured(settings: Settings) -> Address:
    return Address(base_url(settings), settings.region, settings.store)


def mail_sender(settings: Settings) -> str:
    """The sender address of mails."""
    host = urlsplit(base_url(settings)).hostname or ""
    named = not (":" in host or host.replace(".", "").isdigit())
    return settings.mail_from or f"no-reply@{host if named else 'localhost'}"


def local_url(settings: Settings) -> str:
    """The URL for processes on this machine."""
    scheme = "https" if settings.tls_cert else "http"
    host = "localhost" if settings.host in _ALL_ADDRESSES else settings.host
    return f"{scheme}://[{host}]:{settings.port}" if ":" in host else f"{scheme}://{host}:{settings.port}"
