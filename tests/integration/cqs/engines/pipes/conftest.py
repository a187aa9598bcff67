"""Fixtures of the tests of the engine `pipes`."""

from __future__ import annotations

import pytest

from cns_common.cassandra.session import Statement
from cqs.engines.pipes import schema
from tests.integration.cqs.engines.pipes.support import SHORT_TTL_S

PUSHER_LEASES = ("LEASE_NEW", "LEASE_PUSH")
OWNER_LEASES = ("OWN", "RENEW_OWN")


def _shorten(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], life_s: int) -> None:
    """Cassandra's clock cannot be advanced: there these leases end after a second."""
    life = f"TTL {life_s}"
    for name in names:
        statement: Statement = getattr(schema, name)
        assert life in statement.cql
        shorter = Statement(statement.cql.replace(life, f"TTL {SHORT_TTL_S}"), statement.idempotent)
        monkeypatch.setattr(schema, name, shorter)


@pytest.fixture
def short_pusher_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    _shorten(monkeypatch, PUSHER_LEASES, schema.PUSHER_LEASE_S)


@pytest.fixture
def short_owner_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    _shorten(monkeypatch, OWNER_LEASES, schema.OWNER_LEASE_S)
