"""Reports a missing optional dependency in one line, with the command that installs it."""

from __future__ import annotations

import cns
from cns_common.errors import StartError

EXIT_EXTRA_MISSING = 77
_EXTRAS = {
    "cassandra": "cluster",
    "hiredis": "cluster",
    "redis": "cluster",
    "celery": "cluster",
    "opentelemetry": "otel",
}
"""The extra of the package that has a module."""
_MADE = ("cluster", "pipeline")
_WHEEL = f"cns_cqs-{cns.__version__}-py3-none-any.whl"
"""The file that `make wheel` builds. It is not on the public index."""


def how_to_install(extra: str) -> str:
    """The commands that install an extra: from a wheel, and from the source."""
    from_source = f", with its source `make install-{extra}`" if extra in _MADE else ""
    return f"`pip install '{_WHEEL}[{extra}]'`{from_source}"


def extra_missing(error: ModuleNotFoundError) -> StartError:
    """The error for a missing module of an extra. Raises `error` again for any other module."""
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    if extra is None:
        raise error
    return StartError(f"{error.name} is not installed: run {how_to_install(extra)}", EXIT_EXTRA_MISSING)
