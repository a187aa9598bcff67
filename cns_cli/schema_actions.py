"""`cns schema …`: the cluster form's keyspace and tables, made, printed and compared."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from cns_backend import schema
from cns_backend.cluster import place_of
from cns_common.configuration.settings import load_settings
from cns_common.errors import CnsError, StartError

Result = TypeVar("Result")
EXIT_FAILED = 1


def apply(replication: int | None) -> None:
    settings = load_settings()
    _run(schema.apply(place_of(settings), replication or settings.cassandra_replication))
    print(f"cns: keyspace {settings.cassandra_keyspace} has all tables")


def show(replication: int | None) -> None:
    settings = load_settings()
    for text in schema.show(place_of(settings), replication or settings.cassandra_replication):
        print(f"{text};")


def check(replication: int | None) -> None:
    settings = load_settings()
    lines = _run(schema.check(place_of(settings), replication or settings.cassandra_replication))
    for line in lines:
        print(line)
    if lines:
        sys.exit(EXIT_FAILED)
    print(f"cns: keyspace {settings.cassandra_keyspace} is as declared")


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        return asyncio.run(work)
    except StartError as error:
        print(f"cns: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except CnsError as error:
        print(f"cns: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
