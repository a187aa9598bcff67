"""What a round found, as it is printed, kept as JSON lines and put into the tables."""

from __future__ import annotations

import msgspec


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """One power cut, reopened twice: only synced bytes, and a chance subset of the rest."""

    name: str
    position: int
    acknowledged: int
    faults: list[str]


class PowerResult(msgspec.Struct, frozen=True, kw_only=True):
    seed: int
    records: int
    checkpoints: int
    cuts: list[Cut]

    @property
    def valid(self) -> bool:
        return not any(cut.faults for cut in self.cuts)
