"""The forms of queue URLs in responses: AWS's plain form and LocalStack's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from cns_common.aws.call import Call
from cns_common.aws.region import FIRST_REGION, REGION
from cqs.queues.names import QueueKey
from cqs.queues.urls import queue_url

UrlStyle = Literal["off", "standard", "domain", "path", "dynamic"]
"""LocalStack's names of them; `off` is the plain form."""
WriteUrl = Callable[[Call, QueueKey], str]

LOCAL_DOMAIN = "localhost.localstack.cloud"
"""A public DNS name. It and all names below it resolve to the local machine."""
_BASE = re.compile(r"(https?://)([^/]*)")
_PORT = re.compile(r":[0-9]+\Z")
_STANDARD_HOST = re.compile(rf"sqs\.{REGION}\.(.+)", re.ASCII)
_DOMAIN_HOST = re.compile(rf"(?:{REGION}\.)?queue\.(.+)", re.ASCII)


def url_writer(style: UrlStyle, domain: str = "") -> WriteUrl:
    """`domain` is a host, with or without a port, that the `standard` and `domain` styles build upon. '' stands for
    `LOCAL_DOMAIN` with the port of the request."""
    writers: Mapping[UrlStyle, WriteUrl] = {
        "off": queue_url,
        "standard": partial(_standard, domain),
        "domain": partial(_domain, domain),
        "path": _path,
        "dynamic": _dynamic,
    }
    return writers[style]


def _standard(domain: str, call: Call, key: QueueKey) -> str:
    account, region, name = key
    scheme, host = _base(call)
    return f"{scheme}sqs.{region}.{domain or _local_domain(host)}/{account}/{name}"


def _domain(domain: str, call: Call, key: QueueKey) -> str:
    account, region, name = key
    scheme, host = _base(call)
    label = "" if region == FIRST_REGION else f"{region}."
    return f"{scheme}{label}queue.{domain or _local_domain(host)}/{account}/{name}"


def _path(call: Call, key: QueueKey) -> str:
    account, region, name = key
    return f"{call.base_url}/queue/{region}/{account}/{name}"


def _dynamic(call: Call, key: QueueKey) -> str:
    """The style of the host that the caller used."""
    _, host = _base(call)
    if found := _STANDARD_HOST.match(host):
        return _standard(found[1], call, key)
    if found := _DOMAIN_HOST.match(host):
        return _domain(found[1], call, key)
    return _path(call, key)


def _base(call: Call) -> tuple[str, str]:
    """Scheme and host of the base URL."""
    found = _BASE.match(call.base_url)
    return (found[1], found[2]) if found else ("http://", "")


def _local_domain(host: str) -> str:
    port = _PORT.search(host)
    return f"{LOCAL_DOMAIN}{port[0]}" if port else LOCAL_DOMAIN
