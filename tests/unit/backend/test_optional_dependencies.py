"""The error of a missing optional dependency."""

from __future__ import annotations

import pytest

import cns
from cns_backend.optional_dependencies import EXIT_EXTRA_MISSING, extra_missing

WHEEL = f"cns_cqs-{cns.__version__}-py3-none-any.whl"
CLUSTER = f"`pip install '{WHEEL}[cluster]'`, with its source `make install-cluster`"


@pytest.mark.parametrize(
    "name, command",
    [
        *((name, CLUSTER) for name in ("cassandra", "cassandra.cluster", "hiredis", "celery")),
        ("opentelemetry.sdk", f"`pip install '{WHEEL}[otel]'`"),
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
