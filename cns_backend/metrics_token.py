"""The bearer tokens that show names on the metrics page and in health: the setting's, and one of the master key."""

from __future__ import annotations

import contextlib

from cns_backend.urls import address_of, local_url
from cns_common.configuration.settings import Settings
from cns_common.errors import StartError
from cns_common.sealing import Seal, load_master_key

CHALLENGE = 'Bearer realm="cns"'
"""The header WWW-Authenticate of a refusal."""
_PURPOSE = b"cns-metrics"


def tokens(settings: Settings) -> tuple[str, ...]:
    """Tokens that the service accepts. Commands with its master key have one without any setting."""
    found = [settings.metrics_token] if settings.metrics_token else []
    with contextlib.suppress(StartError):  # there is no master key yet
        key = load_master_key(settings.data, settings.master_key, may_make=False)
        found.append(Seal(key).derived_key(_PURPOSE).hex())
    return tuple(found)


def request_headers(settings: Settings, url: str) -> dict[str, str]:
    """Headers of a command's request to `url`. The master key's token is for the settings' own service only: another
    one would learn it."""
    own = url in (address_of(settings).url.rstrip("/"), local_url(settings))
    token = settings.metrics_token or next(iter(tokens(settings) if own else ()), "")
    return {"authorization": f"Bearer {token}"} if token else {}
