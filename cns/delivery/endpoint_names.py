"""The name of an endpoint in events and reports: the part that succeeds or fails together, without credentials and
personal data.

http, https, redis        the host, and the port where the URL has one that is not the scheme's
sqs, lambda, firehose     the ARN
application               the ARN of a mobile endpoint without the id of the device
email, email-json         the domain
sms                       '' (personal data), also for what cannot be parsed
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from cns.endpoints.http_url import target_of

REDIS_PORT = 6379
SHOWN_CHARS_MAX = 500
_CREDENTIALS = re.compile(r"//[^/@]*@")


def without_credentials(text: str) -> str:
    """Hide the user and password of an endpoint's URL."""
    return _CREDENTIALS.sub("//****@", text)


def shown_endpoint(endpoint: str) -> str:
    """The endpoint of a circuit breaker, as workers report it."""
    return without_credentials(endpoint)[:SHOWN_CHARS_MAX]


def endpoint_name(protocol: str, endpoint: str) -> str:
    match protocol:
        case "http" | "https":
            target = target_of(endpoint)
            return "" if target is None else target.host_field
        case "redis":
            return _redis_server(endpoint)
        case "sqs" | "lambda" | "firehose":
            return endpoint
        case "application":
            return endpoint.rpartition("/")[0]
        case "email" | "email-json":
            return endpoint.rpartition("@")[2].lower()
        case _:
            return ""


def _redis_server(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or REDIS_PORT
    except ValueError:  # a port that is no number, half an IPv6 address
        return ""
    shown = f"[{host}]" if ":" in host else host
    return shown if port == REDIS_PORT else f"{shown}:{port}"
