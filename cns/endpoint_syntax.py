"""Which protocols can be subscribed, what their endpoints look like, and how those with a password are shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, urlsplit

from cns.arns import parse_queue_arn
from cns.limits import ENDPOINT_CHARS_MAX, FIFO_SUFFIX
from cns.refusals import invalid
from cns.subscription import HTTP_PROTOCOLS

_ALIASES: Mapping[str, str] = {"cqs": "sqs"}
"""The original's name for its own queues."""

_URL = re.compile(r"[!#-;=?-\[\]-~]+")
"""Printable ASCII but for blanks, quotes, angle brackets and the backslash: nothing that could split a request line."""
_MASK = "****"


def check_protocol(name: str) -> str:
    """The protocol as it is stored."""
    protocol = _ALIASES.get(name, name)
    if protocol not in _CHECKS:
        raise invalid(f"Amazon SNS does not support this protocol string: {name}")
    return protocol


def check_endpoint_syntax(protocol: str, endpoint: str) -> None:
    """What can be said of an endpoint without asking anybody. Topics are standard ones, so queues must be too."""
    _CHECKS[protocol](protocol, endpoint)


def shown(endpoint: str) -> str:
    """The endpoint as lists and attributes show it: without the password of a URL."""
    if "@" not in endpoint:
        return endpoint
    parts = urlsplit(endpoint)
    if parts.scheme not in HTTP_PROTOCOLS or parts.password is None:
        return endpoint
    user, _, host = parts.netloc.rpartition("@")
    return endpoint.replace(parts.netloc, f"{user.partition(':')[0]}:{_MASK}@{host}", 1)


def _check_url(protocol: str, endpoint: str) -> None:
    if not endpoint.lower().startswith(f"{protocol}://"):
        raise invalid("Endpoint must match the specified protocol")
    parts = _split(endpoint)
    if parts is None:
        raise invalid("Endpoint")
    if protocol == "http" and "@" in parts.netloc:
        raise invalid("Endpoint Reason: Please use HTTPS for subscriptions that contain inline credentials")


def _split(url: str) -> SplitResult | None:
    """The parts of a URL that can be posted to."""
    if len(url) > ENDPOINT_CHARS_MAX or _URL.fullmatch(url) is None:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # of an IPv6 address or a port
        return None
    return parts if parts.hostname and port != 0 else None


def _check_queue(_protocol: str, endpoint: str) -> None:
    queue = parse_queue_arn(endpoint)
    if queue is None:
        raise invalid("SQS endpoint ARN")
    if queue.resource.endswith(FIFO_SUFFIX):
        # AWS doubles the prefix here
        raise invalid(
            "Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics"
        )


_CHECKS: Mapping[str, Callable[[str, str], None]] = {"http": _check_url, "https": _check_url, "sqs": _check_queue}
