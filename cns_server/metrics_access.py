"""Decides who sees names of accounts, queues, processes and sites in metrics and health."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from cns_backend.metrics_token import tokens
from cns_common.configuration.settings import Settings
from cns_server.admin_address import AdminAddress

_SCHEME = b"bearer "


class MetricsAccess:
    """Requests by the address for administration, or with a token. A peer on this machine may be a balancer, so its
    address counts for nothing."""

    def __init__(self, settings: Settings) -> None:
        self._admin = AdminAddress(settings.admin_bind)
        self._settings = settings
        self._tokens: tuple[str, ...] = ()

    def admits(self, scope: Mapping[str, Any]) -> bool:
        if self._admin.is_apart and self._admin.admits(scope):
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        if given[: len(_SCHEME)].lower() != _SCHEME:
            return False
        self._tokens = self._tokens or tokens(self._settings)
        token = given[len(_SCHEME) :].strip()
        return any(hmac.compare_digest(token, each.encode()) for each in self._tokens)
