"""The option --filter: a filter policy, evaluated as for a subscription."""

from __future__ import annotations

from collections.abc import Callable

from cns.filters.evaluation import matches
from cns.filters.message_values import attribute_values, body_values
from cns.filters.model import Filter, Scope
from cns.filters.parser import read_filter
from cns.notification import Notification
from cns_common.errors import EXIT_USAGE, RequestError, StartError


def compile_filter(text: str, scope: Scope) -> Callable[[Notification], bool]:
    """Return a test for notifications; '' accepts all. Raises StartError for an invalid policy."""
    if not text:
        return _everything
    try:
        _, policy = read_filter(text, scope)
    except RequestError as error:
        raise StartError(f"--filter: {error.message.splitlines()[0]}", EXIT_USAGE) from None
    return lambda notification: _matches(policy, notification)


def _everything(_: Notification) -> bool:
    return True


def _matches(policy: Filter, notification: Notification) -> bool:
    """Also False if the policy cannot be evaluated: a malformed attribute, or a body that is not a JSON object."""
    if policy.scope is Scope.ATTRIBUTES:
        values = attribute_values(notification.attributes)
    else:
        values = body_values(notification.text_for(""))
    return values is not None and matches(policy, values)
