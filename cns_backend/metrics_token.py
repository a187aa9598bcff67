"""The bearer tokens with which metrics and `/health` show names: the setting, and one derived from the master key."""

from __future__ import annotations

import contextlib
from urllib.parse import urlsplit

from cns_backend.urls import address_of, local_url
from cns_common.configuration.settings import LOOPBACK_HOSTS, Settings
from cns_common.errors import StartError
from cns_common.sealing import Seal, load_master_key

CHALLENGE = 'Bearer realm="cns"'
"""The header WWW-Authenticate of a refusal."""
_LOOPBACK = LOOPBACK_HOSTS[0]
_PORTS = {"http": 80, "https": 443}
_PURPOSE = b"cns-metrics"


def tokens(settings: Settings) -> tuple[str, ...]:
    """Tokens that the service accepts. A command that has the master key needs no setting."""
    found = [settings.metrics_token] if settings.metrics_token else []
    with contextlib.suppress(StartError):  # there is no master key yet
        key = load_master_key(settings.data, settings.master_key, may_make=False)
        found.append(Seal(key).derived_key(_PURPOSE).hex())
    return tuple(found)


def request_headers(settings: Settings, url: str, *, named: bool) -> dict[str, str]:
    """Headers of a command's request to `url`; `named`: the command line gave it. The token of the master key goes only
    to the settings' own service. The setting's token also goes over TLS, or to a named URL on this machine; anyone on
    the way to another URL could read it."""
    scheme, host, _ = place = _place(url)
    own = place in map(_place, (address_of(settings).url, local_url(settings)))
    may_learn = own or scheme == "https" or (named and host == _LOOPBACK)
    token = settings.metrics_token if may_learn else ""
    token = token or next(iter(tokens(settings) if own else ()), "")
    return {"authorization": f"Bearer {token}"} if token else {}


def _place(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port, with one name for this machine. The host is empty if the text is not a URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "", "", None
    return parts.scheme, _LOOPBACK if host in LOOPBACK_HOSTS else host, port or _PORTS.get(parts.scheme)
