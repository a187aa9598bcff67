"""Types of settings that have a form: a URL, a name, an address, a list of networks.

A pattern's `description` completes the error text "must be …".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, FilePath

from cns_common.configuration.checks import (
    check_broker_url,
    check_http_url,
    check_master_key,
    check_redis_urls,
    read_bind_address,
    read_contact_points,
    read_networks,
    read_sites,
)
from cns_common.errors import UNREADABLE
from cns_common.tls import ca_bundle_fault
from cns_common.worker_roles import WorkerRole, read_roles

ORIGIN_CHARS_MAX = 256
_ORIGIN = re.compile(r"\*|https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:([0-9]{1,5}|\*))?")


def _empty_or(check: Callable[[str], object]) -> AfterValidator:
    """'' or a text for which `check` raises no ValueError."""

    def validate(text: str) -> str:
        if text:
            check(text)
        return text

    return AfterValidator(validate)


def _check_url(url: str) -> str:
    check_http_url(url)
    return url


def _check_contact_points(text: str) -> str:
    read_contact_points(text)
    return text


def _split_networks(value: object) -> object:
    return read_networks(value) if isinstance(value, str) else value


def _refuse_everyone(networks: tuple[IPv4Network | IPv6Network, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    for each in networks:
        if not each.prefixlen:
            raise ValueError(f"{each} is every address: anyone could claim to be anyone")
    return networks


def _split_names(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(name for name in (part.strip() for part in value.split(",")) if name))


def _check_origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    for each in origins:
        if _ORIGIN.fullmatch(each) is None:
            text = "an origin such as https://app.example.com or http://localhost:*, in small letters, or *"
            raise ValueError(f"{each[:ORIGIN_CHARS_MAX]} must be {text}")
    return origins


def _split_roles(value: object) -> object:
    return read_roles(value) if isinstance(value, str) else value


def _check_ca_bundle(path: Path | None) -> Path | None:
    fault = None if path is None else ca_bundle_fault(path)
    if fault is not None:
        raise ValueError(fault)
    return path


def _read_json_array(value: object) -> object:
    """The value of a JSON text, or of the file whose path is given."""
    if not isinstance(value, str) or not value:
        return value or ()
    try:
        return json.loads(value if value.lstrip().startswith("[") else Path(value).read_text())
    except OSError as error:
        raise ValueError(f"this is no JSON array, nor a file that can be read: {error.strerror}") from None
    except UNREADABLE as error:
        raise ValueError(f"this is not JSON: {error}") from None


UrlStyle = Literal["off", "standard", "domain", "path", "dynamic"]

HttpUrl = Annotated[str, _empty_or(check_http_url)]
BindAddress = Annotated[str, _empty_or(read_bind_address)]
GatewayUrl = Annotated[str, _empty_or(partial(check_http_url, credentials=True, query=True))]
RedisUrls = Annotated[str, _empty_or(check_redis_urls)]
BrokerUrl = Annotated[str, _empty_or(check_broker_url)]
MasterKey = Annotated[str, _empty_or(check_master_key)]
ContactPointList = Annotated[str, AfterValidator(_check_contact_points)]
SiteReplicas = Annotated[str, _empty_or(read_sites)]
CaBundle = Annotated[FilePath | None, AfterValidator(_check_ca_bundle)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...] | None, BeforeValidator(_split_networks)]
TrustedNetworks = Annotated[
    tuple[IPv4Network | IPv6Network, ...], BeforeValidator(_split_networks), AfterValidator(_refuse_everyone)
]

EngineName = Annotated[
    str,
    Field(pattern=r"^([a-z0-9-]{1,32})?$", description="the name of a queue engine: small letters, digits and hyphens"),
]
CorsOrigins = Annotated[tuple[str, ...], BeforeValidator(_split_names), AfterValidator(_check_origins)]
EngineNames = Annotated[tuple[str, ...], BeforeValidator(_split_names)]

WorkerRoles = Annotated[tuple[WorkerRole, ...], BeforeValidator(_split_roles)]

AccountId = Annotated[str, Field(pattern=r"^\d{12}$", description="12 digits")]
RegionName = Annotated[
    str, Field(pattern=r"^[a-z0-9-]{1,32}$", description="a region: up to 32 small letters, digits and hyphens")
]
KeyspaceName = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9_]{0,47}$",
        description="a keyspace's name: a small letter, then up to 47 small letters, digits and underscores",
    ),
]
DataCentreName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_.-]{1,64}$",
        description="a data centre's name: up to 64 letters, digits, dots, underscores and hyphens",
    ),
]
QueueKeyId = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9_]{16,128})?$",
        description="16 to 128 letters, digits and underscores",
        validate_default=True,
    ),
]
MetricsToken = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9._~+/=-]{16,256})?$",
        description="16 to 256 letters, digits and . _ ~ + / = -",
        repr=False,
    ),
]
MailAddress = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9.-]{1,255})?$",
        description="a mail address such as no-reply@example.com, without a name",
    ),
]
SenderName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,100}$", description="1 to 100 characters of one line")]
MailFooter = Annotated[
    str, Field(pattern=r"^[^\x00-\x1f\x7f]{0,1000}$", description="at most 1,000 characters of one line")
]


class RemoteQueues(BaseModel, frozen=True, extra="forbid"):
    """Queues of another service, and the access key to send to them with."""

    arns: Annotated[
        str,
        Field(
            pattern=r"^arn:aws:sqs:[^:]+:[^:]+:[^:]+$",
            description="an ARN arn:aws:sqs:region:account:name, with * for any text",
        ),
    ]
    """`*` stands for any text."""
    url: Annotated[str, AfterValidator(_check_url)]
    key_id: Annotated[str, Field(min_length=1)]
    secret: Annotated[str, Field(min_length=1, repr=False)]


RemoteQueueList = Annotated[tuple[RemoteQueues, ...], BeforeValidator(_read_json_array)]
