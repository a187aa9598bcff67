"""Every setting, its default and its unit: the one reader of the environment (`CNS_*`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, Field, FilePath, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from cns_common.configuration.checks import (
    check_broker_url,
    check_http_url,
    check_master_key,
    check_redis_url,
    read_contact_points,
    read_networks,
)
from cns_common.configuration.messages import describe
from cns_common.configuration.smtp_url import read_smtp_url
from cns_common.configuration.variable_names import unread_variables
from cns_common.errors import EXIT_SETTINGS_WRONG, StartError
from cns_common.tls import ca_bundle_fault

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
LOOPBACK = ("127.0.0.0/8", "::1/128")
SOCKET_FILE = "store.socket"
SOCKET_PATH_BYTES_MAX = 107
"""Of a Unix socket, on Linux: unix(7)."""
POOL_THREADS_MAX = 64
"""Of one delivery pool in one process, at its start and by control command."""
_SECRET = frozenset({"smtp_url", "master_key", "queue_secret", "remote_queues"})
_PATHS = frozenset({"data", "tls_cert", "tls_key", "ca_bundle", "events_dir"})
UrlStyle = Literal["off", "standard", "domain", "path", "dynamic"]
_LOCALSTACK: Mapping[str, object] = {
    "port": 4566,
    "auth": "off",
    "recreate_wait_s": 0,
    "purge_wait_s": 0,
}
"""The defaults under `compat=localstack`."""
_LOCALSTACK_STRATEGY = "SQS_ENDPOINT_STRATEGY"
"""LocalStack's own variable; what is no strategy means `off` there."""


class RemoteQueues(BaseModel, frozen=True, extra="forbid"):
    """Queues that another service has."""

    arns: Annotated[
        str,
        Field(
            pattern=r"^arn:aws:sqs:[^:]+:[^:]+:[^:]+$",
            description="an ARN arn:aws:sqs:region:account:name, with * for any text",
        ),
    ]
    """`*` stands for any text."""
    url: str
    key_id: Annotated[str, Field(min_length=1)]
    secret: Annotated[str, Field(min_length=1, repr=False)]

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        check_http_url(value)
        return value


class Settings(BaseSettings):
    """Frozen once made. The `cns` command turns its options into the same variables."""

    model_config = SettingsConfigDict(env_prefix="CNS_", frozen=True, extra="forbid")

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 6059
    data: Path = Path("data")
    auth: Literal["on", "off"] = "on"
    compat: Literal["none", "localstack"] = "none"
    """localstack: its port, pages, URLs and leniency, for those who leave it."""
    account_id: Annotated[str, Field(pattern=r"^\d{12}$", description="12 digits")] = "000000000000"
    """Under `auth=off`, the account of callers whose access key names none."""
    region: Annotated[
        str, Field(pattern=r"^[a-z0-9-]{1,32}$", description="a region: up to 32 small letters, digits and hyphens")
    ] = "us-east-1"
    """Where a request says no region: unsigned calls."""
    public_url: str = ""
    """What URLs handed out begin with; empty: the request's Host."""
    sqs_endpoint_strategy: UrlStyle = "off"
    """The form of the queue URLs handed out, by LocalStack's names; off: as AWS's."""
    tls_cert: FilePath | None = None
    tls_key: FilePath | None = None
    ca_bundle: FilePath | None = None
    """PEM: whom to trust, besides the system's authorities, when others are called over TLS."""
    test_clock: bool = False
    master_key: str = ""
    """Base64 of 32 bytes that seal stored secrets; empty: the file `master.key` in the data directory."""
    reserve_bytes: Annotated[int, Field(ge=0)] = 16 * 1024 * 1024
    """The file `reserve`, given up for deletes and purges on a full disk; at most an eighth of the disk. 0: none."""

    store: Literal["embedded", "cassandra"] = "embedded"
    """cassandra: the cluster form, any number of processes on any number of machines."""
    cassandra: str = "127.0.0.1:9042"
    """Contact points: host:port,host:port."""
    cassandra_keyspace: Annotated[
        str,
        Field(
            pattern=r"^[a-z][a-z0-9_]{0,47}$",
            description="a keyspace's name: a small letter, then up to 47 small letters, digits and underscores",
        ),
    ] = "cns"
    cassandra_data_centre: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_.-]{1,64}$",
            description="a data centre's name: up to 64 letters, digits, dots, underscores and hyphens",
        ),
    ] = "datacenter1"
    cassandra_replication: Annotated[int, Field(ge=1, le=9)] = 3
    """Copies in the data centre, for `cns schema`."""
    redis: str = ""
    """URL of the cluster form's cache; empty: none."""

    recreate_wait_s: Annotated[int, Field(ge=0)] = 60
    """How long a deleted queue's name stays taken (SQS: 60 s)."""
    purge_wait_s: Annotated[int, Field(ge=0)] = 60
    """How long after a purge the next one of the same queue is refused (SQS: 60 s)."""

    queue_port: Literal["inline", "http"] = "inline"
    """How CNS reaches CQS: in the same process and store, or over HTTP wherever that is."""
    queue_url: str = ""
    """Where that is; empty: this service's own address."""
    queue_secret: str = ""
    queue_key_id: Annotated[
        str,
        Field(
            pattern=r"^([A-Za-z0-9_]{16,128})?$",
            description="16 to 128 letters, digits and underscores",
            validate_default=True,
        ),
    ] = ""
    """What a CNS and a CQS with different data agree on: each gives the pair. Empty: the data directory's own."""

    body_bytes_max: Annotated[int, Field(ge=1)] = 6 * 1024 * 1024 + 256 * 1024
    """Of a request. 1 MiB of text, the most that SQS and SNS take, is 6 MiB where JSON escapes each character as
    `\\u007f`; the rest is for the names around it."""
    header_bytes_max: Annotated[int, Field(ge=1)] = 16 * 1024
    buffered_bytes_max: Annotated[int, Field(ge=1)] = 32 * 1024 * 1024
    """What all connections of a process hold together: requests that have not come whole, answers not taken."""
    connections_max: Annotated[int, Field(ge=1)] = 15_000
    connections_per_address_max: Annotated[int, Field(ge=1)] = 12_000
    """Of one IPv4 address or one IPv6 network of 64 bits: most of them, as all may come through one gateway."""

    allowed_networks: Annotated[tuple[IPv4Network | IPv6Network, ...] | None, NoDecode] = None
    """Private networks that notifications may be sent to. Unset: loopback while we listen on loopback, else none."""
    permanent_4xx: Literal["dead-letter", "aws"] = "dead-letter"
    """What a 4xx answer does: to the dead-letter queue, or counted as delivered, as AWS was recorded to do."""
    delivery_threads: Annotated[int, Field(ge=1, le=POOL_THREADS_MAX)] = 2
    redelivery_threads: Annotated[int, Field(ge=1, le=POOL_THREADS_MAX)] = 1
    worker_one_core: bool = False
    """A worker's threads stay together on one core, which it chooses and changes: Linux only."""
    delivery_timeout_s: Annotated[float, Field(gt=0, le=3_600, allow_inf_nan=False)] = 15.0
    producers: Annotated[int, Field(ge=1, le=64)] = 2
    endpoint_sends: Annotated[int, Field(ge=1)] = 10
    """To one endpoint at once, by one worker."""
    endpoint_sends_fast: Annotated[int, Field(ge=1)] = 100
    """To one that answers 95 of 100 within 100 ms."""
    breaker_failures: Annotated[int, Field(ge=0)] = 20
    """After so many messages in a row that an endpoint failed to take it is tried with one at a time; 0: never."""
    gateway_url: str = ""
    """Where SMS, mobile push, mail, Lambda and Firehose deliveries are posted; empty: the outbox keeps them."""

    smtp_url: Annotated[str, Field(repr=False)] = ""
    """The relay that mails are handed over to: smtp://user:password@host:587; empty: they go where SMS go."""
    smtp_connections: Annotated[int, Field(ge=1, le=100)] = 4
    """To the relay, from one thread."""
    mail_from: Annotated[
        str,
        Field(
            pattern=r"^([A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9.-]{1,255})?$",
            description="a mail address such as no-reply@example.com, without a name",
        ),
    ] = ""
    """The address that mails come from; empty: no-reply@ the host of `public_url`."""
    mail_sender_name: Annotated[
        str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,100}$", description="1 to 100 characters of one line")
    ] = "Notifications"
    """Whom mails are from where a topic has no DisplayName, and confirmations always."""
    mail_footer: Annotated[
        str, Field(pattern=r"^[^\x00-\x1f\x7f]{0,1000}$", description="at most 1,000 characters of one line")
    ] = "Please do not reply directly to this email."
    """What notifications by mail end with; empty: nothing."""
    mail_rate: Annotated[int, Field(ge=0)] = 10
    """Mails a second that a subscription may be sent before it is suspended, as by SNS; 0: any number."""

    remote_queues: Annotated[tuple[RemoteQueues, ...], NoDecode] = ()
    """Which queues are another service's: a JSON array, or the path of a file that holds it."""

    sms_sandbox: Literal["on", "off"] = "off"
    """Whether every account is in the SMS sandbox: SMS go to numbers only that were verified."""

    broker: str = ""
    """Celery's, for control commands and triggers; empty: `redis`, or what answers on Redis's port of this machine."""
    maintenance_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    """How often `celery beat` triggers maintenance."""

    quota_topics: Annotated[int, Field(ge=0)] = 100_000
    quota_fifo_topics: Annotated[int, Field(ge=0)] = 1_000
    quota_topic_subscriptions: Annotated[int, Field(ge=0)] = 12_500_000
    quota_fifo_topic_subscriptions: Annotated[int, Field(ge=0)] = 100
    quota_pending_subscriptions: Annotated[int, Field(ge=0)] = 5_000
    """Of an account."""
    quota_filter_policies: Annotated[int, Field(ge=0)] = 10_000
    """Of an account."""
    quota_topic_filter_policies: Annotated[int, Field(ge=0)] = 200
    quota_filter_policy_keys: Annotated[int, Field(ge=1)] = 5
    quota_filter_policy_complexity: Annotated[int, Field(ge=1)] = 150
    """Quotas of the SNS API, with AWS's values."""
    quota_topic_replays: Annotated[int, Field(ge=0)] = 10
    """Under way at once; what AWS allows is not documented."""

    events: Literal["on", "off"] = "on"
    """Whether what happens is written down for the data pipeline."""
    events_dir: Path | None = None
    """Where; unset: `events` in the data directory."""
    events_segment_bytes_max: Annotated[int, Field(ge=1)] = 16 * 1024 * 1024
    events_segment_age_s: Annotated[int, Field(ge=1)] = 60
    """How old an event may be before the pipeline can read it."""
    events_retention_s: Annotated[int, Field(ge=1)] = 7 * 24 * 3_600
    events_bytes_max: Annotated[int, Field(ge=1)] = 1024 * 1024 * 1024
    """Of all segments together; the oldest make room, read or not."""

    delivery_log_days: Annotated[int, Field(ge=0)] = 7
    """How long delivery status logs are kept; 0: none are written."""
    delivery_log_bytes_max: Annotated[int, Field(ge=1)] = 1024 * 1024 * 1024
    """Of all logs of this machine together; the oldest make room."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="before")
    @classmethod
    def _empty_paths_are_unset(cls, given: dict[str, object]) -> dict[str, object]:
        """An empty path would mean the working directory."""
        return {name: value for name, value in given.items() if value != "" or name not in _PATHS}

    @model_validator(mode="before")
    @classmethod
    def _as_localstack(cls, given: dict[str, object]) -> dict[str, object]:
        """Only defaults: what was given stays."""
        if given.get("compat") != "localstack":
            return given
        strategy = os.environ.get(_LOCALSTACK_STRATEGY, "standard")
        styled = {"sqs_endpoint_strategy": strategy if strategy in get_args(UrlStyle) else "off"}
        return {**_LOCALSTACK, **styled, **given}

    @field_validator("data")
    @classmethod
    def _has_room_for_socket(cls, value: Path) -> Path:
        path = value / SOCKET_FILE
        excess = len(os.fsencode(path)) - SOCKET_PATH_BYTES_MAX
        if excess > 0:
            raise ValueError(f"is {excess} bytes too long: {path} must have {SOCKET_PATH_BYTES_MAX} at most")
        return value

    @field_validator("compat")
    @classmethod
    def _open(cls, value: str, info: ValidationInfo) -> str:
        """Its pages show every queue to whoever asks."""
        if value == "localstack" and info.data.get("auth") == "on":
            raise ValueError("there are no signatures with it: leave CNS_AUTH=on out")
        return value

    @field_validator("buffered_bytes_max")
    @classmethod
    def _holds_a_body(cls, value: int, info: ValidationInfo) -> int:
        if value < info.data.get("body_bytes_max", 0):
            raise ValueError("less than CNS_BODY_BYTES_MAX: no request of that size could be read")
        return value

    @field_validator("allowed_networks", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return read_networks(value) if isinstance(value, str) else value

    @field_validator("public_url", "queue_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        if value:
            check_http_url(value)
        return value

    @field_validator("gateway_url")
    @classmethod
    def _is_gateway(cls, value: str) -> str:
        if value:
            check_http_url(value, credentials=True, query=True)
        return value

    @field_validator("redis")
    @classmethod
    def _is_redis(cls, value: str) -> str:
        if value:
            check_redis_url(value)
        return value

    @field_validator("broker")
    @classmethod
    def _is_broker(cls, value: str) -> str:
        if value:
            check_broker_url(value)
        return value

    @field_validator("cassandra")
    @classmethod
    def _names_nodes(cls, value: str) -> str:
        read_contact_points(value)
        return value

    @field_validator("master_key")
    @classmethod
    def _is_key(cls, value: str) -> str:
        if value:
            check_master_key(value)
        return value

    @field_validator("tls_key")
    @classmethod
    def _has_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value is not None and info.data.get("tls_cert", value) is None:
            raise ValueError("needs CNS_TLS_CERT: without it the service would answer without TLS")
        return value

    @field_validator("body_bytes_max", "header_bytes_max", "connections_max")
    @classmethod
    def _lets_calls_in(cls, value: int) -> int:
        if value < 1:
            raise ValueError("must be at least 1")
        return value

    @field_validator("ca_bundle")
    @classmethod
    def _holds_certificates(cls, value: Path | None) -> Path | None:
        fault = None if value is None else ca_bundle_fault(value)
        if fault is not None:
            raise ValueError(fault)
        return value

    @field_validator("smtp_url")
    @classmethod
    def _names_a_relay(cls, value: str, info: ValidationInfo) -> str:
        if value:
            read_smtp_url(value)
        if value and not info.data.get("public_url") and info.data.get("host") not in LOOPBACK_HOSTS:
            raise ValueError("needs CNS_PUBLIC_URL, which the links in mails begin with: else a caller could say where")
        return value

    @field_validator("remote_queues", mode="before")
    @classmethod
    def _read_mapping(cls, value: object) -> object:
        if not isinstance(value, str) or not value:
            return value or ()
        try:
            return json.loads(value if value.lstrip().startswith("[") else Path(value).read_text())
        except OSError as error:
            raise ValueError(f"this is no JSON array, nor a file that can be read: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"this is not JSON: {error}") from None

    @field_validator("queue_key_id")
    @classmethod
    def _go_together(cls, value: str, info: ValidationInfo) -> str:
        if bool(value) != bool(info.data.get("queue_secret")):
            raise ValueError("CNS_QUEUE_KEY_ID and CNS_QUEUE_SECRET go together")
        return value

    @property
    def listens_on_loopback(self) -> bool:
        return self.host in LOOPBACK_HOSTS

    def networks(self) -> tuple[str, ...]:
        """Private networks that may be delivered to."""
        if self.allowed_networks is not None:
            return tuple(str(network) for network in self.allowed_networks)
        return LOOPBACK if self.listens_on_loopback else ()

    @property
    def events_path(self) -> Path:
        """Where events are written."""
        return self.data / "events" if self.events_dir is None else self.events_dir

    @property
    def delivery_logs_path(self) -> Path:
        """Where delivery status logs are written."""
        return self.data / "logs"

    @property
    def socket_path(self) -> Path:
        """Where the store host answers the other processes."""
        return self.data / SOCKET_FILE


def load_settings(data: Path | None = None) -> Settings:
    """From the environment; `data` wins over what that says."""
    try:
        return Settings() if data is None else Settings(data=data)
    except ValidationError as error:
        raise StartError(describe(error, Settings.model_fields, _SECRET), EXIT_SETTINGS_WRONG) from None


def unread_settings() -> list[str]:
    """A line for each variable of the environment that looks like a setting and is none."""
    return unread_variables(os.environ, Settings.model_fields)
