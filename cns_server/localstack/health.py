"""LocalStack's health page: the services' states, and values that a start-up script has put there."""

from __future__ import annotations

from typing import Any

import msgspec

from cns_common.errors import UNREADABLE
from cns_server.health import ServiceHealth

SERVICES = ("sns", "sqs", "sts")
EDITION = "community"
VERSION = "4.0.0"
"""The version of LocalStack that these pages follow."""
PUT_BYTES_MAX = 64 * 1_024
"""The size of all values that scripts have put, together."""
_PATH_PARTS_MAX = 8

Leaf = str | int | float | bool | None
Branch = Leaf | list[Leaf] | dict[str, Leaf | list[Leaf]]
Tree = dict[str, Any]


class HealthBoard:
    """The page of one process: values put here do not appear on those of other API processes."""

    def __init__(self) -> None:
        self._put: Tree = {}

    def put(self, body: bytes | None) -> bool:
        """Merge a JSON object; a key `a:b` means `b` in `a`. Returns False if it is no object or too large."""
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
            tree = merge(tree, value)
        if len(msgspec.json.encode(tree)) > PUT_BYTES_MAX:
            return False
        self._put = tree
        return True

    def to_page(self, health: ServiceHealth) -> Tree:
        """The page. Scripts wait until services are `running` or `available`."""
        state = "running" if health.ready else "starting"
        services = dict.fromkeys(SERVICES, state)
        return {**merge({"services": services}, self._put), "edition": EDITION, "version": VERSION}


def read_action(body: bytes | None) -> str | None:
    """The `action` of a JSON object, '' if it has none. None if the body is not an object, or an empty one."""
    given = _read(body)
    if not given:
        return None
    action = given.get("action")
    return action if isinstance(action, str) else ""


def merge(tree: Tree, other: Tree) -> Tree:
    """The union of both trees. Where they differ, `other` wins."""
    result = dict(tree)
    for key, value in other.items():
        present = result.get(key)
        result[key] = merge(present, value) if isinstance(present, dict) and isinstance(value, dict) else value
    return result


def _read(body: bytes | None) -> Tree | None:
    """Decode a JSON object of limited depth; None if it is anything else, or the body was too large."""
    try:
        return dict(msgspec.json.decode(body or b"", type=dict[str, Branch]))
    except UNREADABLE:
        return None
