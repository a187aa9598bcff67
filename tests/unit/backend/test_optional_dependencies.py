"""The error of a missing optional dependency."""

from __future__ import annotations

import pytest

from cns_backend.optional_dependencies import EXIT_EXTRA_MISSING, extra_missing

CLUSTER = "`pip install 'cns[cluster]'`, with its source `make install-cluster`"


@pytest.mark.parametrize(
    "name, command",
    [
        *((name, CLUSTER) for name in ("cassandra", "cassandra.cluster", "hiredis", "celery")),
        ("opentelemetry.sdk", "`pip install 'cns[otel]'`"),
    ],
)
def test_it_says_how_to_get_it(name: str, command: str) -> None:
    missing = extra_missing(ModuleNotFoundError(f"No module named '{name}'", name=name))
    assert str(missing) == f"{name} is not installed: run {command}"
    assert missing.exit_code == EXIT_EXTRA_MISSING


@pytest.mark.parametrize("name", ["cns.missing", "cassandras", None])
def test_our_own_mistakes_are_not_hidden(name: str | None) -> None:
    with pytest.raises(ModuleNotFoundError):
        extra_missing(ModuleNotFoundError("No module", name=name))
