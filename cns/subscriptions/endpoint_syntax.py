"""Checks of protocols and endpoints at Subscribe, the endpoint's owner, and the hiding of passwords."""

from __future__ import annotations

from urllib.parse import urlsplit

from cns.errors import invalid_parameter
from cns.limits import ENDPOINT_CHARS_MAX, FIFO_SUFFIX
from cns.protocols.table import ALIASES, PROTOCOLS, find_protocol
from cns_common.arn import parse_arn

_MASK = "****"


def check_protocol(name: str) -> str:
    """Return the protocol in the form to store."""
    protocol = ALIASES.get(name, name)
    if protocol not in PROTOCOLS:
        raise invalid_parameter(f"Amazon SNS does not support this protocol string: {name}")
    return protocol


def check_endpoint(protocol: str, endpoint: str) -> str:
    """Check the syntax of an endpoint. Return it in the form to store."""
    own = PROTOCOLS[protocol]
    if not endpoint.isascii() or len(endpoint) > ENDPOINT_CHARS_MAX:
        raise own.syntax_fault(endpoint)
    return own.check(endpoint)


def check_pairing(protocol: str, endpoint: str, *, fifo_topic: bool) -> None:
    """FIFO topics deliver to queues of both kinds and to nothing else; standard topics not to FIFO queues."""
    fifo_error = find_protocol(protocol).fifo_error
    if fifo_topic and not fifo_error:
        raise invalid_parameter(f"Invalid protocol type: {protocol}")
    if not fifo_topic and fifo_error and endpoint.endswith(FIFO_SUFFIX):
        raise invalid_parameter(f"Invalid parameter: Endpoint Reason: {fifo_error}")  # AWS repeats the prefix here


def account_of(protocol: str, endpoint: str) -> str | None:
    """The account that owns the endpoint, if its ARN names one."""
    if not find_protocol(protocol).names_account:
        return None
    arn = parse_arn(endpoint)
    return arn.account if arn is not None else None


def masked_endpoint(endpoint: str) -> str:
    """The endpoint for lists and attributes: the password of a URL is masked."""
    if "@" not in endpoint or "://" not in endpoint:
        return endpoint
    parts = urlsplit(endpoint)
    if parts.password is None:
        return endpoint
    user, _, host = parts.netloc.rpartition("@")
    return endpoint.replace(parts.netloc, f"{user.partition(':')[0]}:{_MASK}@{host}", 1)


def has_masked_password(endpoint: str) -> bool:
    """Whether it is a URL as lists show it: its password is not known."""
    return f":{_MASK}@" in endpoint
