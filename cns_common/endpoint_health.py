"""The file by which the pipeline tells the service which endpoints were unhealthy of late.

`cns pipeline health` writes it; `cns endpoints` shows it; workers may take it as a hint (`CNS_ENDPOINT_HINTS`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

FILE_NAME = "endpoints.json"
UNHEALTHY_MAX = 10_000
"""Endpoints in the file, those with the most failures first."""
FILE_BYTES_MAX = 16 * 1024 * 1024


class UnhealthyEndpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An endpoint's observed figures, and those expected by its own history; None without a history."""

    endpoint: str  # as `cns.protocols` name it in events
    state: Literal["failing", "slow"]
    since_ms: int  # the first failure observed, or the start of the observation
    attempts: int
    failed: int
    expected_share: float | None = None  # of attempts that fail
    p50_ms: int | None = None  # of answers that took the message
    expected_p50_ms: int | None = None
    cause: str = ""  # of most failures
    status: int = 0


class EndpointHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The unhealthy endpoints between two times, in ms since the epoch."""

    made_at_ms: int
    observed_from_ms: int
    observed_until_ms: int
    observed: int  # endpoints, healthy ones included
    unhealthy: tuple[UnhealthyEndpoint, ...]


def encode_endpoint_health(health: EndpointHealth) -> bytes:
    return msgspec.json.encode(health)


def read_endpoint_health(path: Path) -> EndpointHealth:
    """Raises OSError, and ValueError for a file that is not of this form or too large."""
    with path.open("rb") as file:
        read = file.read(FILE_BYTES_MAX + 1)
    if len(read) > FILE_BYTES_MAX:
        raise ValueError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(read, type=EndpointHealth)
    except RecursionError as error:
        raise ValueError(str(error)) from error
