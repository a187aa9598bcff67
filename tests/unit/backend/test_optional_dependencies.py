"""The error of a missing optional dependency."""

from __future__ import annotations

import pytest

from cns_backend.optional_dependencies import EXIT_EXTRA_MISSING, extra_missing


@pytest.mark.parametrize("name", ["cassandra", "cassandra.cluster", "hiredis", "celery"])
def test_it_says_how_to_get_it(name: str) -> None:
    missing = extra_missing(ModuleNotFoundError(f"No module named '{name}'", name=name))
    assert str(missing) == f"{name} is not installed: run `make install-cluster`"
    assert missing.exit_code == EXIT_EXTRA_MISSING


@pytest.mark.parametrize("name", ["cns.missing", "cassandras", None])
def test_our_own_mistakes_are_not_hidden(name: str | None) -> None:
    with pytest.raises(ModuleNotFoundError):
        extra_missing(ModuleNotFoundError("No module", name=name))
