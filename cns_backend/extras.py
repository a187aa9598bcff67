"""What the core installation leaves out, and how to get it: said in one line instead of a failed import."""

from __future__ import annotations

from cns_common.errors import StartError

EXIT_EXTRA_MISSING = 77
_CLUSTER = ("cassandra", "hiredis", "celery")


def extra_missing(error: ModuleNotFoundError) -> StartError:
    """What to say when an import fails; raises the error anew when the module is none of an extra's."""
    if (error.name or "").partition(".")[0] not in _CLUSTER:
        raise error
    return StartError(f"{error.name} is not installed: run `make install-cluster`", EXIT_EXTRA_MISSING)
