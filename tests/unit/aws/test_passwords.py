"""Hashes of passwords."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from cns_common.aws.auth import passwords
from cns_common.aws.auth.passwords import CHARS_MAX, CHARS_MIN, check_password, hash_password, verify_password
from cns_common.errors import RequestError

PASSWORD = "correct horse battery"


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """The parameters of each scrypt that is computed. It costs little here."""
    found: list[tuple[int, int, int]] = []
    scrypt = hashlib.scrypt

    def counted(password: bytes, *, n: int, r: int, p: int, **others: Any) -> bytes:
        found.append((n, r, p))
        return scrypt(password, n=2, r=r, p=p, **others)

    monkeypatch.setattr("hashlib.scrypt", counted)
    return found


def test_a_hash_is_of_its_password_alone_and_salted() -> None:
    first = hash_password(PASSWORD)
    scheme, n, r, p, _, _ = first.split("$")
    assert (scheme, int(n), int(r), int(p)) == ("scrypt", 2**14, 8, 5)
    assert PASSWORD not in first
    assert verify_password(PASSWORD, first)
    assert not verify_password(PASSWORD + "x", first)
    assert hash_password(PASSWORD) != first


def test_unknown_names_cost_as_much_as_known_ones(costs: list[tuple[int, int, int]]) -> None:
    stored = hash_password(PASSWORD)
    costs.clear()
    assert not verify_password("wrong wrong wrong", stored)
    assert not verify_password("wrong wrong wrong", "")
    assert not verify_password("x" * 1_000_000, "")
    assert costs == [(2**14, 8, 5)] * 3


def test_a_hash_has_its_own_parameters(costs: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(passwords, "COST_N", 2**10)
        stored = hash_password(PASSWORD)
    assert verify_password(PASSWORD, stored)
    assert costs == [(2**10, 8, 5)] * 2


def test_the_same_characters_typed_otherwise_are_the_same_password(costs: list[tuple[int, int, int]]) -> None:
    assert verify_password("cafe\u0301 cafe\u0301 cafe\u0301", hash_password("caf\u00e9 caf\u00e9 caf\u00e9"))


@pytest.mark.parametrize(
    "text", ["", "x" * (CHARS_MIN - 1), "x" * (CHARS_MAX + 1), "a\tcontrol character", "\udcff" * 20]
)
def test_texts_that_are_no_passwords(text: str) -> None:
    with pytest.raises(RequestError, match="A password has"):
        check_password(text)
    check_password("x" * CHARS_MIN)
    check_password("ü" * CHARS_MAX)
