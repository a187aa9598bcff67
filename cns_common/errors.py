"""The one tree of errors. A class says what the caller must do; none of them knows HTTP.

CnsError
├── RequestError             change the request; `code` is the API's own name for the fault
├── StoreUnavailable         try again: nothing was written
│   ├── StoreAway            try again in some seconds: the call has waited for the store, or may not wait
│   └── StoreFull            free some disk, then try again
├── OutcomeUnknown           try again, knowing the first try may have counted
└── StartError               fix the machine or the command line; the text is for a person, `exit_code` for a script
"""

from __future__ import annotations

EXIT_USAGE = 2
"""The exit code of a command whose words are wrong, as Typer has it."""
EXIT_SETTINGS_WRONG = 71
EXIT_CASSANDRA_UNUSABLE = 78
"""Cassandra cannot be reached, does not answer in time, or its keyspace lacks tables."""
UNREADABLE = (ValueError, RecursionError)
"""The errors of a decoder of JSON or TOML: ValueError for malformed text, a wrong type and malformed UTF-8."""


class CnsError(Exception):
    """Everything this service raises on purpose."""


class RequestError(CnsError):
    """The caller must change the request.

    `code` is the error's name in the service model (SQS: the shape, such as ``QueueDoesNotExist``; SNS and STS: the
    code on the wire, such as ``InvalidParameter``). The protocol package turns it into status, header and body.
    """

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class StoreUnavailable(CnsError):
    """The store could not be reached or refused; nothing was written, so the call may be repeated."""


class StoreAway(StoreUnavailable):
    """The store did not come back while the call waited for it, or too many calls wait."""


class StoreFull(StoreUnavailable):
    """No space left for the store; nothing was written."""


class OutcomeUnknown(CnsError):
    """A write was under way when the store was lost: it may or may not have happened."""


class StartError(CnsError):
    """The process cannot start; one clear line says why."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
