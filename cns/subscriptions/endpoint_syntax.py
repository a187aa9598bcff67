"""The protocols and the syntax of endpoints: checks, the owner's account, and the hiding of passwords."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, unquote, urlsplit

from cns.arns import parse_queue_arn
from cns.errors import invalid_parameter
from cns.limits import ENDPOINT_CHARS_MAX, FIFO_SUFFIX
from cns_common.arn import ACCOUNT_ID, Arn, parse_arn
from cns_common.errors import RequestError

ARN_PROTOCOLS = frozenset({"sqs", "lambda", "firehose", "application"})
"""Endpoints of these protocols name their owner's account."""

_ALIASES: Mapping[str, str] = {"cqs": "sqs"}
"""Other names of protocols: the original CNS calls its queues cqs."""

_URL = re.compile(r"[!#-;=?-\[\]-~]+")
"""Printable ASCII without blanks, quotes, angle brackets and backslash: nothing that could split a request line."""
_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_ADDRESS_CHARS_MAX = 320
_PHONE_NUMBER = re.compile(r"\+?[1-9][0-9]{1,14}")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[./-](?=[0-9])")
_FUNCTION = re.compile(r"function:[A-Za-z0-9_-]{1,64}(:(\$LATEST|[A-Za-z0-9_-]{1,128}))?")
_STREAM = re.compile(r"deliverystream/[A-Za-z0-9_.-]{1,64}")
_MOBILE_ENDPOINT = re.compile(r"endpoint/[A-Za-z_]{1,32}/[A-Za-z0-9_.-]{1,256}/[0-9a-fA-F-]{36}")
_MASKED_SCHEMES = ("https://", "redis://", "rediss://")
_MASK = "****"


def check_protocol(name: str) -> str:
    """Return the protocol in the form to store."""
    protocol = _ALIASES.get(name, name)
    if protocol not in _CHECKS:
        raise invalid_parameter(f"Amazon SNS does not support this protocol string: {name}")
    return protocol


def check_endpoint(protocol: str, endpoint: str) -> str:
    """Check the syntax of an endpoint. Return it in the form to store."""
    if not endpoint.isascii() or len(endpoint) > ENDPOINT_CHARS_MAX:
        raise _syntax_error(protocol, endpoint)
    return _CHECKS[protocol](protocol, endpoint)


def check_pairing(protocol: str, endpoint: str, *, fifo_topic: bool) -> None:
    """FIFO topics deliver to queues of both kinds and to nothing else; standard topics not to FIFO queues."""
    if fifo_topic and protocol != "sqs":
        raise invalid_parameter(f"Invalid protocol type: {protocol}")
    if not fifo_topic and protocol == "sqs" and endpoint.endswith(FIFO_SUFFIX):
        # AWS repeats the prefix here
        raise invalid_parameter(
            "Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics"
        )


def account_of(protocol: str, endpoint: str) -> str | None:
    """The account that owns the endpoint, if its ARN names one."""
    if protocol not in ARN_PROTOCOLS:
        return None
    arn = parse_arn(endpoint)
    return arn.account if arn is not None else None


def redis_channel(endpoint: str) -> str:
    """The channel of a checked Redis URL: its whole path, because channels do not belong to a database."""
    return unquote(urlsplit(endpoint).path.removeprefix("/"))


def masked_endpoint(endpoint: str) -> str:
    """The endpoint for lists and attributes: the password of a URL is masked."""
    if "@" not in endpoint or not endpoint.lower().startswith(_MASKED_SCHEMES):
        return endpoint
    parts = urlsplit(endpoint)
    if parts.password is None:
        return endpoint
    user, _, host = parts.netloc.rpartition("@")
    return endpoint.replace(parts.netloc, f"{user.partition(':')[0]}:{_MASK}@{host}", 1)


# -- the checks -------------------------------------------------------------------------------------------------------


def _check_url(protocol: str, endpoint: str) -> str:
    if not endpoint.lower().startswith(f"{protocol}://"):
        raise invalid_parameter("Endpoint must match the specified protocol")
    parts = _split(endpoint)
    if parts is None:
        raise invalid_parameter("Endpoint")
    if protocol == "http" and "@" in parts.netloc:
        raise invalid_parameter("Endpoint Reason: Please use HTTPS for subscriptions that contain inline credentials")
    return endpoint


def _check_redis(_protocol: str, endpoint: str) -> str:
    """redis://[user:password@]host[:port]/channel, or rediss:// for TLS. An extension, with error texts of our own."""
    if not endpoint.lower().startswith(("redis://", "rediss://")):
        raise invalid_parameter("Endpoint must match the specified protocol")
    parts = _split(endpoint)
    if parts is None or parts.query or parts.fragment or not redis_channel(endpoint):
        raise invalid_parameter("Endpoint Reason: must be redis://host:port/channel")
    return endpoint


def _split(url: str) -> SplitResult | None:
    """The parts of a valid URL, else None."""
    if _URL.fullmatch(url) is None:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # an invalid IPv6 address or port
        return None
    return parts if parts.hostname and port != 0 else None


def _check_queue(protocol: str, endpoint: str) -> str:
    if parse_queue_arn(endpoint) is None:
        raise _syntax_error(protocol, endpoint)
    return endpoint


def _check_mail(protocol: str, endpoint: str) -> str:
    if len(endpoint) > _ADDRESS_CHARS_MAX or not _ADDRESS.fullmatch(endpoint):
        raise _syntax_error(protocol, endpoint)
    return endpoint


def _check_phone_number(protocol: str, endpoint: str) -> str:
    """Return the number without dots, dashes and slashes between digits."""
    number = _BETWEEN_DIGITS.sub("", endpoint)
    if not _PHONE_NUMBER.fullmatch(number):
        raise _syntax_error(protocol, endpoint)
    return number


def _check_resource(protocol: str, endpoint: str) -> str:
    """Check the ARN of a function, a stream or a mobile endpoint."""
    arn = parse_arn(endpoint)
    if arn is None or not _is_resource(protocol, arn):
        raise _syntax_error(protocol, endpoint)
    return endpoint


def _is_resource(protocol: str, arn: Arn) -> bool:
    service, form = _RESOURCES[protocol]
    return (
        (arn.partition, arn.service) == ("aws", service)
        and arn.region != ""
        and ACCOUNT_ID.fullmatch(arn.account) is not None
        and form.fullmatch(arn.resource) is not None
    )


def _syntax_error(protocol: str, endpoint: str) -> RequestError:
    if protocol == "sms":
        return RequestError("InvalidParameter", f"Invalid SMS endpoint: {endpoint}")  # AWS omits its usual prefix here
    return invalid_parameter(_ERROR_TEXTS.get(protocol, "Endpoint").format(endpoint))


_RESOURCES: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "lambda": ("lambda", _FUNCTION),
    "firehose": ("firehose", _STREAM),
    "application": ("sns", _MOBILE_ENDPOINT),
}
_ERROR_TEXTS: Mapping[str, str] = {
    "email": "Email address",
    "email-json": "Email address",
    "sms": "Invalid SMS endpoint: {}",
    "sqs": "SQS endpoint ARN",
    "application": "Application endpoint arn invalid:{}",
    "lambda": "Lambda endpoint ARN",
    "firehose": "Firehose endpoint ARN",
}
_CHECKS: Mapping[str, Callable[[str, str], str]] = {
    "http": _check_url,
    "https": _check_url,
    "email": _check_mail,
    "email-json": _check_mail,
    "sms": _check_phone_number,
    "sqs": _check_queue,
    "application": _check_resource,
    "lambda": _check_resource,
    "firehose": _check_resource,
    "redis": _check_redis,
}
PROTOCOLS = tuple(_CHECKS)
