"""Keyspace and tables: parsed from their CQL, and compared with those that Cassandra has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra

_CREATE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)\s*\((.*?)\)(?: WITH (.*))?\Z", re.DOTALL)
_KEY = re.compile(r"PRIMARY KEY\s*\((.*)\)\Z", re.DOTALL)
_ORDER = re.compile(r"CLUSTERING ORDER BY \(([^)]*)\)")
_COMPACTION = re.compile(r"compaction = \{'class': '(\w+)'[^}]*\}")
_NUMBER = re.compile(r"(default_time_to_live|gc_grace_seconds) = (\d+)")
DEFAULT_OPTIONS = {"default_time_to_live": "0", "gc_grace_seconds": "864000", "compaction": ""}
"""Cassandra's defaults. A table that declares no compaction may have any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraTable:
    """`columns` maps a name to its type and its role in the key."""

    name: str
    columns: dict[str, str]
    options: dict[str, str]


def read_table(text: str) -> CassandraTable:
    """The table that a `CREATE TABLE IF NOT EXISTS` of this service declares."""
    found = _CREATE.match(text)
    if found is None:
        raise ValueError(f"this does not create a table: {text}")
    name, body, with_ = found[1], found[2], found[3] or ""
    parts = _split(body)
    types = {part.split()[0]: _type_of(part) for part in parts if not _KEY.match(part)}
    roles = _key_roles(_key_of(parts), _ORDER.search(with_))
    columns = {column: _column(cql_type, roles.get(column, "regular")) for column, cql_type in types.items()}
    compaction = _COMPACTION.search(with_)
    options = {**DEFAULT_OPTIONS, **dict(_NUMBER.findall(with_)), "compaction": compaction[1] if compaction else ""}
    return CassandraTable(name=name, columns=columns, options=options)


def keyspace_text(address: CassandraAddress, replication: int) -> str:
    replicas = ", ".join(f"'{name}': {count}" for name, count in _replicas(address, replication))
    return (
        f"CREATE KEYSPACE IF NOT EXISTS {address.keyspace} WITH replication ="
        f" {{'class': 'NetworkTopologyStrategy', {replicas}}}"
    )


def _replicas(address: CassandraAddress, replication: int) -> tuple[tuple[str, int], ...]:
    """The wanted replicas of each data centre: `replication` where there is only one."""
    return address.sites or ((address.data_centre, replication),)


async def differences(
    cassandra: Cassandra, address: CassandraAddress, tables: Sequence[str], replication: int
) -> list[str]:
    """A line for each difference between the declared schema and the existing one."""
    found = await cassandra.run_schema(
        f"SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '{address.keyspace}'"  # an identifier
    )
    if not found:
        return [f"keyspace {address.keyspace} is missing"]
    options = dict(found[0][0])
    by_site = options.get("class", "").endswith("NetworkTopologyStrategy")
    lines = []
    for site, wanted in _replicas(address, replication):
        replicas = options.get(site, "0")
        if not by_site or replicas != str(wanted):
            lines.append(f"keyspace {address.keyspace} has {replicas} replicas in {site}, not {wanted}")
    existing = await read_tables(cassandra, address.keyspace)
    for text in tables:
        lines += _compare(read_table(text), existing.get(read_table(text).name))
    return lines


async def read_tables(cassandra: Cassandra, keyspace: str) -> dict[str, CassandraTable]:
    """The tables of a keyspace, by name."""
    columns: dict[str, dict[str, str]] = {}
    for table, column, cql_type, kind, position, order in await cassandra.run_schema(
        "SELECT table_name, column_name, type, kind, position, clustering_order FROM system_schema.columns"
        f" WHERE keyspace_name = '{keyspace}'"
    ):
        columns.setdefault(table, {})[column] = f"{cql_type} {_key_role(kind, position, order)}"
    return {
        name: CassandraTable(
            name=name,
            columns=columns.get(name, {}),
            options={
                "default_time_to_live": str(life_s),
                "gc_grace_seconds": str(grace_s),
                "compaction": dict(compaction)["class"].rpartition(".")[2],
            },
        )
        for name, life_s, grace_s, compaction in await cassandra.run_schema(
            "SELECT table_name, default_time_to_live, gc_grace_seconds, compaction FROM system_schema.tables"
            f" WHERE keyspace_name = '{keyspace}'"
        )
    }


def additions(declared: CassandraTable, existing: CassandraTable) -> dict[str, str]:
    """The columns that an existing table lacks, each with the statement that adds it. Key columns cannot be added."""
    return {
        f"{declared.name}.{column}": f"ALTER TABLE {declared.name} ADD {column} {kind.removesuffix(' regular')}"
        for column, kind in declared.columns.items()
        if column not in existing.columns and kind.endswith((" regular", " static"))
    }


def alteration(text: str, existing: CassandraTable) -> str | None:
    """The statement that gives an existing table the options of its declaration, if they differ."""
    declared = read_table(text)
    if all(wanted in ("", existing.options[option]) for option, wanted in declared.options.items()):
        return None
    compaction = _COMPACTION.search(text)
    options = [f"{name} = {value}" for name, value in declared.options.items() if name != "compaction"]
    return f"ALTER TABLE {declared.name} WITH {' AND '.join(options + ([compaction[0]] if compaction else []))}"


def _compare(declared: CassandraTable, existing: CassandraTable | None) -> list[str]:
    if existing is None:
        return [f"table {declared.name} is missing"]
    lines = []
    for column in sorted(declared.columns.keys() | existing.columns.keys()):
        wanted, found = declared.columns.get(column), existing.columns.get(column)
        if wanted != found:
            lines.append(f"column {declared.name}.{column} is {found or 'missing'}, not {wanted or 'wanted'}")
    for option, wanted in declared.options.items():
        if wanted and wanted != existing.options[option]:
            lines.append(f"table {declared.name}: {option} is {existing.options[option]}, not {wanted}")
    return lines


def _key_of(parts: Sequence[str]) -> str:
    """The text between the brackets of `PRIMARY KEY(…)`, or the column marked PRIMARY KEY."""
    for part in parts:
        found = _KEY.match(part)
        if found is not None:
            return found[1]
        if part.endswith("PRIMARY KEY"):
            return part.split()[0]
    raise ValueError(f"no primary key: {parts}")


def _key_roles(key: str, order: re.Match[str] | None) -> dict[str, str]:
    """Each key column's role, as `_key_role` says it."""
    first, *clustering = _split(key)
    descending = {part.split()[0] for part in order[1].split(",") if part.endswith("DESC")} if order else set()
    partition = _split(first.strip("()"))
    roles = {column: _key_role("partition_key", at, "none") for at, column in enumerate(partition)}
    for at, column in enumerate(clustering):
        roles[column] = _key_role("clustering", at, "desc" if column in descending else "asc")
    return roles


def _key_role(kind: str, position: int, order: str) -> str:
    if kind == "partition_key":
        return f"partition key {position}"
    return f"clustering key {position} {order}" if kind == "clustering" else kind


def _column(cql_type: str, role: str) -> str:
    return cql_type if cql_type.endswith(" static") else f"{cql_type} {role}"


def _type_of(part: str) -> str:
    """The type in a column's definition."""
    return part.split(None, 1)[1].removesuffix("PRIMARY KEY").strip()


def _split(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
