"""Optional dependencies: a missing one is a line that names the command to install it, and not a traceback."""

from __future__ import annotations

from cns_common.errors import StartError

EXIT_EXTRA_MISSING = 77
_COMMANDS = {
    "cassandra": "make install-cluster",
    "hiredis": "make install-cluster",
    "celery": "make install-cluster",
    "opentelemetry": "pip install 'cns[otel]'",
}


def extra_missing(error: ModuleNotFoundError) -> StartError:
    """The error for a missing module of an extra. Raises `error` again for any other module."""
    command = _COMMANDS.get((error.name or "").partition(".")[0])
    if command is None:
        raise error
    return StartError(f"{error.name} is not installed: run `{command}`", EXIT_EXTRA_MISSING)
