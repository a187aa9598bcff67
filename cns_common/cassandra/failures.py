"""The Cassandra driver's errors, and the errors of this service that they become."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cassandra import (
    ConsistencyLevel,
    DriverException,
    OperationTimedOut,
    ReadTimeout,
    RequestExecutionException,
    Unavailable,
    WriteFailure,
    WriteTimeout,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException, ConnectionShutdown
from cassandra.protocol import ErrorMessage

from cns_common.errors import CnsError, OutcomeUnknown, StoreUnavailable

FAILURES = (NoHostAvailable, DriverException, ConnectionException, ErrorMessage)
"""The driver's errors, which have no common base class."""
NO_ANSWER = (OperationTimedOut, NoHostAvailable, ConnectionException)
"""Errors that the driver itself raises, without an answer from Cassandra."""
UNANSWERED = (WriteTimeout, OperationTimedOut, WriteFailure, ConnectionShutdown)
"""Errors after which a write may have had its effect."""


def failure_of_tries(failures: Sequence[CnsError]) -> CnsError:
    """The failure of all tries: the last one, unless an earlier one may have had its effect."""
    return next((failure for failure in failures if isinstance(failure, OutcomeUnknown)), failures[-1])


def translated(error: Exception, *, written: bool, conditional: bool = False) -> CnsError:
    """After the timeout of a write its outcome is unknown; the other known errors mean that nothing was written.

    The driver asks several nodes; each may have lost its connection after it got the statement.
    """
    if written and any(_may_have_effect(one, conditional=conditional) for one in errors_of_nodes(error)):
        return OutcomeUnknown(f"Cassandra: {text_of(error)}")
    unwritten = (Unavailable, ReadTimeout, NoHostAvailable, OperationTimedOut, RequestExecutionException)
    if isinstance(error, unwritten) or not written:
        return StoreUnavailable(f"Cassandra: {text_of(error)}")
    return OutcomeUnknown(f"Cassandra: {text_of(error)}")


def _may_have_effect(error: object, *, conditional: bool) -> bool:
    """A conditional write is first decided, by the replicas of its serial level, then stored by those of the other
    level. If these lack, it is decided all the same: the next conditional statement stores it."""
    if isinstance(error, Unavailable):
        return conditional and not ConsistencyLevel.is_serial(error.consistency)
    return isinstance(error, UNANSWERED)


def errors_of_nodes(error: Exception) -> list[object]:
    return list(error.errors.values()) if isinstance(error, NoHostAvailable) else [error]


def text_of(error: Exception) -> str:
    return str(error).replace(os.linesep, " ")[:300]
