"""Errors that many SNS operations share, with AWS's texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cns_common.errors import RequestError

AT_CREATION = "Attributes Reason: "
"""Prefix of errors about an attribute at CreateTopic and Subscribe."""


def invalid_parameter(what: str) -> RequestError:
    return RequestError("InvalidParameter", f"Invalid parameter: {what}")


def missing_parameter(name: str) -> RequestError:
    return invalid_parameter(f"{name} Reason: no value for required parameter")


def null_member(path: str) -> RequestError:
    """A missing required member, for operations that AWS's framework checks before the service does."""
    return RequestError(
        "ValidationError",
        f"1 validation error detected: Value null at '{path}' failed to satisfy constraint: Member must not be null",
    )


def length_violation(text: str, path: str, least: int, most: int) -> RequestError:
    """A text outside of the length that its shape allows; also from AWS's framework."""
    limit = f"less than or equal to {most}" if len(text) > most else f"greater than or equal to {least}"
    return RequestError(
        "ValidationError",
        f"1 validation error detected: Value '{text}' at '{path}' failed to satisfy constraint: "
        f"Member must have length {limit}",
    )


def constraint_violation(value: str | None, path: str, constraint: str, code: str = "ValidationError") -> RequestError:
    """A value that violates a constraint of the model; also from AWS's framework. None hides a private value."""
    shown = "" if value is None else f" '{value}'"
    return RequestError(
        code, f"1 validation error detected: Value{shown} at '{path}' failed to satisfy constraint: {constraint}"
    )


def no_such_topic() -> RequestError:
    return RequestError("NotFound", "Topic does not exist")


def no_such_subscription() -> RequestError:
    return RequestError("NotFound", "Subscription does not exist")


def concurrent_access() -> RequestError:
    return RequestError("ConcurrentAccess", "Another request is changing the same resource. Please try again.")


def required_text(params: Mapping[str, Any], name: str) -> str:
    """A required parameter of type string; it may be empty."""
    value = params.get(name)
    if value is None:
        raise missing_parameter(name)
    return str(value)
