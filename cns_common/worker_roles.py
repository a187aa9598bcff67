"""The roles of worker processes. A worker has one, some or all of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class WorkerRole(StrEnum):
    """producer: fans publishes out into jobs. consumer: delivers. maintenance: move tasks, replays, expired records."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    MAINTENANCE = "maintenance"


ALL_ROLES = tuple(WorkerRole)


def read_roles(text: str) -> tuple[str, ...]:
    """Split `producer,consumer`. Raises ValueError for a name that is no role, or if there is none."""
    names = [name for name in (part.strip() for part in text.split(",")) if name]
    unknown = [name for name in names if name not in ALL_ROLES]
    if unknown or not names:
        what = f"{unknown[0]!r} is no role" if unknown else "names no role"
        raise ValueError(f"{what}: some of {', '.join(ALL_ROLES)}, separated by commas")
    return tuple(dict.fromkeys(names))


def lacking_roles(by_worker: Sequence[Sequence[str]]) -> tuple[WorkerRole, ...]:
    """The roles that no worker has."""
    present = {role for roles in by_worker for role in roles}
    return tuple(role for role in ALL_ROLES if role not in present)
