"""The named statements of a report, in `statements.sql`, and the macros of their SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

EVENTS = "events"
WEEK = "week"
"""0: the period of the report; 1: the same span a week before."""
TABLE = "of_table"
ROW = (TABLE, "name", "topic", "protocol", "endpoint")
"""The columns that name a row of a table. Those that a table does not use are ''."""
BY_TARGET = ("subscriptions", "endpoints", "protocols")
OF_TOPICS = ("accepted", "accepted_bytes", "matched", "filtered", "pending", "replay_matched")
"""Events give these by topic, so they are null in the tables by target."""
SUMS = (
    *OF_TOPICS,
    "retrying",
    "attempts",
    "attempts_failed",
    "delivered",
    "delivered_bytes",
    "dead_lettered",
    "dropped",
    "fanouts_dropped",
    "duplicates",
    "replay_attempts",
    "replay_attempts_failed",
    "replayed",
    "replay_dead_lettered",
    "replay_dropped",
)
LIMITS = {"latency_bits": 8, "attempts_max": 100, "slowest_max": 50}
"""A rounded latency is at most 1/128 too low. The last bin of attempts has all above its number, too."""
_FILE = Path(__file__).with_name("statements.sql")
_STATEMENT = re.compile(r"^-- :: (\w+)( kept)?: (?:.*\n--)*.*\n", re.MULTILINE)
_BY_TARGET = ", ".join([f"'{table}'" for table in BY_TARGET])


@dataclass(frozen=True, slots=True)
class ReportStatement:
    """`text` names the statements that it reads in braces; `inputs` are these names. A kept one is computed once."""

    name: str
    is_kept: bool
    text: str
    inputs: tuple[str, ...]

    def sql(self, names: Mapping[str, str]) -> str:
        """The text, with a name for each of its inputs."""
        return self.text.format_map(names)


class _Sums:
    """`{sums}` adds up all sums; `{sums:a b}` selects the columns a and b, `{sums:*}` all, with null for the others."""

    def __format__(self, wanted: str) -> str:
        if not wanted:
            return ", ".join([f"coalesce(sum({name}), 0) AS {name}" for name in SUMS])
        given = dict.fromkeys(SUMS) if wanted == "*" else {}
        for word in () if wanted == "*" else wanted.split():
            name, _, column = word.partition("=")
            given[name] = column
        columns = {name: given[name] or name if name in given else "CAST(NULL AS BIGINT)" for name in SUMS}
        return ", ".join([f"{column} AS {name}" for name, column in columns.items()])


class _ShownSums:
    """All sums. Those of topics are null in the tables by target."""

    def __format__(self, _: str) -> str:
        hidden = f"CASE WHEN {TABLE} NOT IN ({_BY_TARGET}) THEN"
        return ", ".join([f"{hidden} {name} END AS {name}" if name in OF_TOPICS else name for name in SUMS])


class _Day:
    """`{day:at_ms}` is the date, UTC, of a time in ms since the epoch."""

    def __format__(self, at_ms: str) -> str:
        return f"CAST(DATE '1970-01-01' + CAST(({at_ms} - {at_ms} % 86400000) / 86400000 AS INT) AS STRING)"


_WORDS = {"sums": _Sums(), "shown_sums": _ShownSums(), "day": _Day(), **LIMITS}


def statements() -> dict[str, ReportStatement]:
    """All statements by name. Each reads only events and earlier statements."""
    _, *parts = _STATEMENT.split(_FILE.read_text())
    found: dict[str, ReportStatement] = {}
    for name, kept, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        names = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
        inputs = tuple(dict.fromkeys([name for name in names if name not in _WORDS]))
        own = text.strip().format_map({**_WORDS, **{name: f"{{{name}}}" for name in inputs}})
        found[name] = ReportStatement(name=name, is_kept=kept is not None, text=own, inputs=inputs)
    return found


def needed_for(name: str) -> list[ReportStatement]:
    """The statement of this name after those that it reads, directly or not."""
    known = statements()
    names = {name}
    for other in reversed(known.values()):
        if other.name in names:
            names.update(other.inputs)
    return [statement for statement in known.values() if statement.name in names]
