"""Hints about endpoints, from the pipeline: the first sends to one that was unhealthy lately are few (ADR 0014).

A hint is for an endpoint of which this worker knows nothing, and ends with the first message that the endpoint takes.
It closes no circuit breaker and drops nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import structlog

from cns.protocols.table import SCHEMES
from cns_common.clock import Clock
from cns_common.endpoint_health import EndpointHealth, read_endpoint_health

HINT_AGE_MAX_MS = 2 * 3_600_000
"""Hints whose observation ended longer ago than this are ignored."""
READ_INTERVAL_S = 60.0

Hint = Literal["failing", "slow"]

log = structlog.get_logger(__name__)


class EndpointHints:
    def __init__(self, file: Path | None, clock: Clock) -> None:
        """Without a file there are no hints."""
        self._file = file
        self._clock = clock
        self._observed_until_ms = 0
        self._states: Mapping[str, Hint] = {}
        self._failed = False

    def find(self, key: str) -> Hint | None:
        """The hint about an endpoint, by the key of its sends (`Channel.traffic_key`)."""
        if not self._states or abs(self._clock.real_ms() - self._observed_until_ms) > HINT_AGE_MAX_MS:
            return None
        return self._states.get(name_of(key))

    async def step(self) -> None:
        await self.read()
        await asyncio.sleep(READ_INTERVAL_S)

    async def read(self) -> None:
        """Read the file again. What cannot be read is no hint; it is logged once."""
        if self._file is None:
            return
        try:
            self._keep(await asyncio.to_thread(read_endpoint_health, self._file))
            self._failed = False
        except FileNotFoundError:  # nothing was observed yet
            self._states = {}
        except (OSError, ValueError) as error:
            self._states = {}
            if not self._failed:
                log.warning("endpoint_hints.read_failed", file=str(self._file), error=str(error))
            self._failed = True

    def _keep(self, health: EndpointHealth) -> None:
        self._observed_until_ms = health.observed_until_ms
        self._states = {one.endpoint: one.state for one in health.unhealthy}


def name_of(key: str) -> str:
    """The endpoint's name in events. A key is the account and the endpoint; others name no single endpoint."""
    endpoint = key.partition(" ")[2]
    scheme, has_scheme, _ = endpoint.partition("://")
    if not has_scheme:
        return endpoint
    return SCHEMES[scheme].endpoint_name(endpoint) if scheme in SCHEMES else ""
