"""Finds the newest administrative acts in the files of this machine's processes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from cns_common.activity.log import FAILED
from cns_common.activity.record import OK, AdministrativeAct
from cns_common.errors import UNREADABLE
from cns_common.events.recent_events import Newest, newest_of

READ_BYTES_MAX = 512 * 1024 * 1024
"""More than is kept by default: a filter that rarely matches reads it all."""
_MARK = b'"event":"act.done"'
_decode = msgspec.json.Decoder(AdministrativeAct).decode


class ActFilter(NamedTuple):
    """Which acts are wanted; '' and 0 stand for any. Texts other than the account may be a part of the field's."""

    since_ms: int = 0
    until_ms: int = 0
    account: str = ""
    principal: str = ""
    action: str = ""
    target: str = ""
    only_failures: bool = False

    def accepts(self, act: AdministrativeAct) -> bool:
        return (
            act.at_ms >= self.since_ms
            and (not self.until_ms or act.at_ms < self.until_ms)
            and self.account in ("", act.account)
            and self.principal in act.principal
            and self.action.lower() in act.action.lower()
            and self.target in act.target
            and not (self.only_failures and act.result == OK)
        )


def newest_acts(directory: Path, wanted: ActFilter, n: int) -> Newest[AdministrativeAct]:
    """Up to `n` of the newest acts that are wanted, the newest first."""
    return newest_of([directory, directory / FAILED], _read, _MARK, (_MARK,), wanted.accepts, n, READ_BYTES_MAX)


def _read(line: bytes) -> AdministrativeAct | None:
    """None for a line that this version cannot read."""
    try:
        return _decode(line)
    except UNREADABLE:
        return None
