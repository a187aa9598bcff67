"""The cache's Lua scripts as Redis knows them: by the digest of their text."""

from __future__ import annotations

import hashlib

from cqs.engines.cluster.redis import scripts as lua


class Script:
    """A Lua script with its SHA-1 digest, by which EVALSHA names it."""

    __slots__ = ("sha", "text")

    def __init__(self, text: str) -> None:
        self.text = lua.HEAD + text
        self.sha = hashlib.sha1(self.text.encode()).hexdigest()


ADD = Script(lua.ADD)
LEASE = Script(lua.LEASE)
BEGIN_DELETE = Script(lua.BEGIN_DELETE)
CHECK = Script(lua.CHECK)
SET_VISIBLE_AT = Script(lua.SET_VISIBLE_AT)
FORGET = Script(lua.FORGET)
COUNTS = Script(lua.COUNTS)
PAGE = Script(lua.PAGE)
BEGIN_EPOCH = Script(lua.BEGIN_EPOCH)
FILL_PAGE = Script(lua.FILL_PAGE)
END_FILL = Script(lua.END_FILL)
ADD_MISSING = Script(lua.ADD_MISSING)
RESET = Script(lua.RESET)
HELD = Script(lua.HELD)
STATES = Script(lua.STATES)
RENEW = Script(lua.RENEW)
KEEP_HIDDEN = Script(lua.KEEP_HIDDEN)
FINISH_DELETES = Script(lua.FINISH_DELETES)
UNFINISHED_DELETES = Script(lua.UNFINISHED_DELETES)
UNDO_DELETE = Script(lua.UNDO_DELETE)
UNDO_LEASE = Script(lua.UNDO_LEASE)
