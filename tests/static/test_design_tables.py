"""docs/design.md states the keys of the tables in Cassandra and their grace periods as the schema has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from cns_backend import schema
from cns_common.cassandra.schema import DEFAULT_OPTIONS, CassandraTable, read_table

DESIGN = (Path(__file__).parents[2] / "docs" / "design.md").read_text()
TABLES = {table.name: table for table in map(read_table, schema.TABLES)}
GRACE = "gc_grace_seconds"


def rows_below(head: str) -> Iterator[list[str]]:
    """The cells of the rows of the document's table whose first column has this title."""
    _, found, rest = DESIGN.partition(f"\n| {head} |")
    assert found, head
    for line in rest.splitlines()[2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def key(table: CassandraTable, kind: str) -> list[str]:
    return [name for name, column in table.columns.items() if f" {kind} key " in column]


def test_keys() -> None:
    rows = list(rows_below("resource"))
    assert len(rows) == 14
    for _, name, partition, clustering, _ in rows:
        table = TABLES[name.strip("`")]
        assert re.sub(r" \(.*\)", "", partition).split(", ") == key(table, "partition"), name
        assert [each for each in clustering.split(", ") if each] == key(table, "clustering"), name


def test_how_long_deletes_are_remembered() -> None:
    said = {
        name: grace.split()[0] for grace, names, _ in rows_below(f"`{GRACE}`") for name in re.findall(r"`(\w+)`", names)
    }
    default = DEFAULT_OPTIONS[GRACE]
    assert said == {name: table.options[GRACE] for name, table in TABLES.items() if table.options[GRACE] != default}
