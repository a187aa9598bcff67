"""Keeps libraries from importing modules that the service does not use. Import it first: ADR 0034."""

from __future__ import annotations

import os
import sys

_FOR_TERMINALS = "rich"
"""structlog would use it for tracebacks, which `cns_common.logs` formats."""

# the search for plugins reads the metadata of every installed distribution
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # noqa: TID251  # pydantic's, no setting
if _FOR_TERMINALS not in sys.modules and "structlog" not in sys.modules:
    sys.modules[_FOR_TERMINALS] = None  # type: ignore[assignment]  # marks the module as missing
    import structlog  # noqa: F401  # imported for later

    del sys.modules[_FOR_TERMINALS]
