"""Optional dependencies: a missing one is a line that names the command to install it, and not a traceback."""

from __future__ import annotations

from cns_common.errors import StartError

EXIT_EXTRA_MISSING = 77
_CLUSTER = ("cassandra", "hiredis", "celery")


def extra_missing(error: ModuleNotFoundError) -> StartError:
    """The error for a missing module of an extra. Raises `error` again for any other module."""
    if (error.name or "").partition(".")[0] not in _CLUSTER:
        raise error
    return StartError(f"{error.name} is not installed: run `make install-cluster`", EXIT_EXTRA_MISSING)
