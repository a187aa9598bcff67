"""The state of the service in three colours, with the reasons."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Health(msgspec.Struct, frozen=True):
    """red: a person is needed. yellow: something is set aside or was restarted. green: all is well."""

    status: Literal["green", "yellow", "red"]
    ready: bool
    reasons: tuple[str, ...] = ()
    processes: tuple[dict[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain
