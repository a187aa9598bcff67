"""The rows of the seeds, from the TOML files of this folder."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

import msgspec

FOLDER = Path(__file__).parent
State = Literal["yes", "partly", "no"]
STATES: tuple[str, ...] = get_args(State)
SEEDS: Mapping[str, tuple[str, str, int]] = {
    "000": ("A", "CQS architecture", 58),
    "001": ("B", "CassieQ", 83),
    "002": ("N", "CNS architecture", 21),
    "003": ("P", "cassandra-queue (pipes)", 52),
    "004": ("Q", "BDQS", 69),
}
"""Letter of the ids, name, and number of rows, by seed."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement of a seed. Several rows may have the same command."""

    id: str
    stated: str
    state: State
    show: str = ""
    """The command that shows it, without `.venv/bin/`: `pytest …`, `python -m …`, `cns …`, or `read FILE`."""
    note: str = ""
    """The missing part, or where to read more."""

    @property
    def tests(self) -> list[str]:
        """The test nodes of the command; empty if it runs none."""
        words = self.show.split()
        return words[1:] if words[:1] == ["pytest"] else []


class _Seed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    row: list[Row]


def load_rows(seed: str) -> list[Row]:
    """Raises msgspec.ValidationError for a file that is not right."""
    content = tomllib.loads((FOLDER / f"{seed}.toml").read_text(encoding="utf-8"))
    return msgspec.convert(content, _Seed).row
