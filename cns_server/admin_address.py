"""The address for administration (`CNS_ADMIN_BIND`): with one, no other address serves the pages or operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cns_common.configuration.checks import read_bind_address


class AdminAddress:
    """Identifies a request by the local port that accepted it, never by its Host header."""

    def __init__(self, bind: str) -> None:
        self._port = read_bind_address(bind)[1] if bind else 0

    @property
    def is_apart(self) -> bool:
        """Whether there is such an address."""
        return bool(self._port)

    def admits(self, scope: Mapping[str, Any]) -> bool:
        """Whether a request came by this address, or there is none."""
        server = scope.get("server")
        return not self._port or (server is not None and server[1] == self._port)
