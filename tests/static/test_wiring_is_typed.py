"""mypy checks every store against its contract, because `Backend` has each contract as a field."""

from __future__ import annotations

from typing import get_type_hints

from cns_backend.backend import CONTRACTS, Backend


def test_each_contract_is_a_field_of_the_backend() -> None:
    assert CONTRACTS.items() <= get_type_hints(Backend).items()
