"""Queue URLs: from a request's QueueUrl or path to a queue's key, and back.

The host of a QueueUrl is ignored, since clients reach the service under many names. But a host or path that names
another region than the signature is refused. A name alone, and a path without an account such as ElasticMQ's
`/queue/NAME`, mean a queue of the caller. `cqs.localstack.url_styles` writes further forms; all of them are read here.
"""

from __future__ import annotations

import re
from dataclasses import replace

from cns_common.arn import parse_arn
from cns_common.aws.call import INTERNAL_ACCOUNT, Call
from cns_common.aws.region import REGION_CHARS_MAX, region_of_host, region_of_path
from cns_common.errors import RequestError
from cqs.internal_queues import internal_key
from cqs.limits import QUEUE_NAME_CHARS_MAX
from cqs.queues.names import QueueKey

_ACCOUNT_DIGITS = 12
_URL = re.compile(rf"https?://(?![0-9]{{{_ACCOUNT_DIGITS}}}/)([^/\\?#\s]*)(/.*)\Z", re.ASCII)
_PLACE = re.compile("[A-Za-z][A-Za-z0-9._-]*|")
"""A part of a path that cannot be meant as an account, unless it has as many digits as one."""
_NO_PATH = re.compile("[%:]")
"""An account that is escaped, or behind a scheme that is not read, must not be overlooked."""


def no_such_queue() -> RequestError:
    return RequestError("QueueDoesNotExist", "The specified queue does not exist.")


def queue_url(call: Call, key: QueueKey) -> str:
    account, _, name = key
    return f"{call.base_url}/{account}/{name}"


def addressed_queue(call: Call, url: str | None) -> QueueKey:
    """The key in a request's QueueUrl or, without one, in its path."""
    if not url:
        path = call.path
    elif (rest := url.removeprefix(call.base_url)).startswith("/"):
        path = rest
    else:
        path = _path_of(url, call.region)
    *places, name = path.split("/")
    if all(map(_is_no_account, places)) and not _NO_PATH.search(path):
        if places[-2:-1] == ["queue"]:
            _check_region(places[-1], call.region, url or path)
        return queue_key(call, call.caller.account, name)
    if len(places) == 2:
        return queue_key(call, places[1], name)
    if len(places) == 4 and places[1] == "queue":
        _check_region(places[2], call.region, url or path)
        return queue_key(call, places[3], name)
    raise no_such_queue()


def queue_in_named_region(call: Call, url: str | None) -> QueueKey:
    """Like `addressed_queue`, but a region in the address takes precedence over that of the signature."""
    region = _named_region(url or f"{call.base_url}{call.path}")
    return addressed_queue(replace(call, region=region) if region else call, url)


def queue_key(call: Call, account: str, name: str) -> QueueKey:
    """The key of a tenant's queue or, for the internal account only, of an internal queue."""
    if not (name.isascii() and account.isascii() and 0 < len(name) <= QUEUE_NAME_CHARS_MAX):
        raise no_such_queue()
    if len(account) == _ACCOUNT_DIGITS and account.isdigit() and len(call.region) <= REGION_CHARS_MAX:
        return (account, call.region, name)
    if account == INTERNAL_ACCOUNT == call.caller.account:
        return internal_key(name)
    raise no_such_queue()


def key_of_arn(text: str) -> QueueKey | None:
    """The queue's key; None if the ARN is not a queue's, or a part of it is empty or too long to be one's."""
    arn = parse_arn(text)
    if arn is None or arn.service != "sqs" or not text.isascii():
        return None
    if not (arn.account and 0 < len(arn.region) <= REGION_CHARS_MAX and 0 < len(arn.resource) <= QUEUE_NAME_CHARS_MAX):
        return None
    if len(arn.account) > _ACCOUNT_DIGITS:
        return None
    return (arn.account, arn.region, arn.resource)


def _is_no_account(place: str) -> bool:
    digits = sum(map(str.isdigit, place))
    return place != INTERNAL_ACCOUNT and digits < _ACCOUNT_DIGITS and _PLACE.fullmatch(place) is not None


def _named_region(address: str) -> str:
    match = _URL.match(address)
    host, path = match.groups() if match else ("", address)
    return region_of_path(path) or region_of_host(host)


def _path_of(url: str, region: str) -> str:
    match = _URL.match(url)
    if match is None:
        return url
    host_region = region_of_host(match[1])
    if host_region:
        _check_region(host_region, region, url)
    return match[2]


def _check_region(named: str, region: str, address: str) -> None:
    if named != region:
        raise RequestError("InvalidAddress", f"The address {address} is not valid for this endpoint.")
