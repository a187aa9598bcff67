"""What LocalStack's health page shows: the services' states, and whatever a start-up script has put beside them."""

from __future__ import annotations

from typing import Any

import msgspec

from cns_common.aws.protocol.json_checked import UNREADABLE
from cns_server.health import Health

SERVICES = ("sns", "sqs", "sts")
EDITION = "community"
VERSION = "4.0.0"
"""The LocalStack that this is compatible with."""
PUT_BYTES_MAX = 64 * 1_024
"""Of all that is put, together."""
_PATH_PARTS_MAX = 8

Leaf = str | int | float | bool | None
Branch = Leaf | list[Leaf] | dict[str, Leaf | list[Leaf]]
Tree = dict[str, Any]


class HealthBoard:
    """One process's: what is put here is not seen by the other API processes."""

    def __init__(self) -> None:
        self._put: Tree = {}

    def put(self, body: bytes | None) -> bool:
        """Take over the keys of a JSON object; `a:b` is `b` in `a`. False when it is none, or it is too much."""
        given = _read(body)
        if given is None:
            return False
        tree: Tree = self._put
        for key, value in given.items():
            parts = key.split(":")
            if len(parts) > _PATH_PARTS_MAX:
                return False
            for part in reversed(parts):
                value = {part: value}
            tree = merged(tree, value)
        if len(msgspec.json.encode(tree)) > PUT_BYTES_MAX:
            return False
        self._put = tree
        return True

    def shown(self, health: Health) -> Tree:
        """A service that starts is not one that runs: scripts wait for `running` or `available`."""
        state = "running" if health.ready else "starting"
        services = dict.fromkeys(SERVICES, state)
        return {**merged({"services": services}, self._put), "edition": EDITION, "version": VERSION}


def read_action(body: bytes | None) -> str | None:
    """The `action` of a JSON object ('' when it has none), or None when that is no object or an empty one."""
    given = _read(body)
    if not given:
        return None
    action = given.get("action")
    return action if isinstance(action, str) else ""


def merged(tree: Tree, other: Tree) -> Tree:
    """Both; where they differ, `other`."""
    result = dict(tree)
    for key, value in other.items():
        mine = result.get(key)
        result[key] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return result


def _read(body: bytes | None) -> Tree | None:
    """A JSON object that is no deeper than such states are; None when it is anything else, or was too large."""
    try:
        return dict(msgspec.json.decode(body or b"", type=dict[str, Branch]))
    except UNREADABLE:
        return None
