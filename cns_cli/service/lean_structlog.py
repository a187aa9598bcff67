"""Imports structlog without rich, which it takes for tracebacks that we format ourselves: a tenth of a start's CPU."""

from __future__ import annotations

import sys

_OPTIONAL = "rich"

if _OPTIONAL not in sys.modules and "structlog" not in sys.modules:
    sys.modules[_OPTIONAL] = None  # type: ignore[assignment]  # the import system's word for: not there
    import structlog  # noqa: F401

    del sys.modules[_OPTIONAL]
