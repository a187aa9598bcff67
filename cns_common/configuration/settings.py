"""Every setting, its default and its unit: the one reader of the environment (`CNS_*`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, Field, FilePath, ValidationError, ValidationInfo, field_validator, model_validator

from cns_common.configuration.checks import read_bind_address, read_sites
from cns_common.configuration.messages import describe
from cns_common.configuration.proxy_url import EgressProxy, read_proxy_url
from cns_common.configuration.smtp_url import read_smtp_url
from cns_common.configuration.value_types import (
    AccountId,
    BindAddress,
    BrokerUrl,
    CaBundle,
    ContactPointList,
    CorsOrigins,
    DataCentreName,
    EngineName,
    EngineNames,
    GatewayUrl,
    HttpUrl,
    KeyspaceName,
    MailAddress,
    MailFooter,
    MasterKey,
    MetricsToken,
    Networks,
    QueueKeyId,
    RedisUrls,
    RegionName,
    RemoteQueueList,
    SenderName,
    SiteReplicas,
    TrustedNetworks,
    UrlStyle,
    WorkerRoles,
)
from cns_common.configuration.variable_names import PREFIX, unread_variables
from cns_common.errors import EXIT_SETTINGS_WRONG, StartError
from cns_common.worker_roles import ALL_ROLES

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
LOOPBACK = ("127.0.0.0/8", "::1/128")
SOCKET_FILE = "store.socket"
SOCKET_PATH_BYTES_MAX = 107
"""The longest path of a Unix socket on Linux: unix(7)."""
POOL_THREADS_MAX = 64
"""Threads of one delivery pool in one process, at its start and by control command."""
_SECRET = frozenset({"smtp_url", "egress_proxy", "master_key", "metrics_token", "queue_secret", "remote_queues"})
_PATHS = frozenset(
    {"endpoint_hints", "data", "tls_cert", "tls_key", "client_ca", "ca_bundle", "events_dir", "first_key_file", "init"}
)
_LOCALSTACK: Mapping[str, object] = {
    "port": 4566,
    "auth": "off",
    "cors_origins": "http://localhost:*,https://localhost:*,http://127.0.0.1:*,https://127.0.0.1:*",
    "recreate_wait_s": 0,
    "purge_wait_s": 0,
}
"""The defaults under `compat=localstack`."""
_LOCALSTACK_STRATEGY = "SQS_ENDPOINT_STRATEGY"
"""LocalStack's own variable. LocalStack takes an unknown strategy for `off`."""


class Settings(BaseModel, frozen=True, extra="forbid", validate_default=True):
    """Values that are not given are those of the environment. The `cns` command turns its options into the same
    variables."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 6059
    data: Path = Path("data")
    first_key_file: Path | None = None
    """The file that the first start appends its access key to, made for its owner alone; none: standard output."""
    auth: Literal["on", "off"] = "on"
    compat: Literal["none", "localstack"] = "none"
    """localstack: LocalStack's port, pages, URLs and leniency, for its former users."""
    account_id: AccountId = "000000000000"
    """Under `auth=off`, the account of callers whose access key names none."""
    region: RegionName = "us-east-1"
    """The region of requests that name none, which are the unsigned ones."""
    admin_bind: BindAddress = ""
    """`host:port` that alone serves the pages and what operators may do; empty: the service's own address does."""
    metrics_token: MetricsToken = ""
    """The bearer token that shows names on `/metrics` and `/health`; empty: `admin_bind` does, and a token that `cns`
    commands of this machine derive from the master key."""
    cors_origins: CorsOrigins = ()
    """Origins whose pages may call the AWS APIs from a browser, with commas between: `https://app.example.com`,
    `http://localhost:*` for each port, `*` for all; empty: none. Pages, sign-in and tokens are never open to them."""
    public_url: HttpUrl = ""
    """The beginning of URLs in answers and mails; empty: the Host that the request names."""
    sqs_endpoint_strategy: UrlStyle = "off"
    """The form of queue URLs in answers, by LocalStack's names; off: AWS's form."""
    tls_cert: FilePath | None = None
    tls_key: FilePath | None = None
    client_ca: CaBundle = None
    """PEM: the authorities of callers' certificates, whose subject is a condition key of policies; unset: none is
    asked for."""
    client_certificate: Literal["optional", "required"] = "optional"
    """Whether connections without a certificate are refused, those of probes and of commands on this machine too."""
    ca_bundle: CaBundle = None
    """PEM: certificates to trust, besides the system's authorities, in outgoing TLS connections."""
    init: FilePath | None = None
    """A file for `cns config apply`, which is applied at each start before calls are answered."""
    test_clock: bool = False
    master_key: MasterKey = ""
    """Base64 of 32 bytes that seal stored secrets; empty: the file `master.key` in the data directory."""
    reserve_bytes: Annotated[int, Field(ge=0)] = 16 * 1024 * 1024
    """Size of the file `reserve`, whose room deletes get on a full disk; at most an eighth of the disk. 0: none."""

    store: Literal["embedded", "cassandra"] = "embedded"
    """cassandra: the cluster form, with any number of processes on any number of machines."""
    cassandra: ContactPointList = "127.0.0.1:9042"
    """Contact points: host:port,host:port."""
    cassandra_keyspace: KeyspaceName = "cns"
    cassandra_data_centre: DataCentreName = "datacenter1"
    cassandra_replication: Annotated[int, Field(ge=1, le=9)] = 3
    """Replicas in the data centre, for `cns schema`."""
    cassandra_sites: SiteReplicas = ""
    """Two data centres with their replicas, dc1:3,dc2:3, of which one is active; empty: there is one."""
    cassandra_site_writes: Literal["each", "local"] = "each"
    """Whether a write is acknowledged by a quorum of each site, while both answer, or of the active one."""
    redis: RedisUrls = ""
    """URLs of the cluster form's caches, with blanks between, each as `url` or `name=url`; empty: none."""

    engines: EngineNames = ()
    """The queue engines that run, separated by commas; empty: all of the form."""
    default_engine: EngineName = ""
    """The engine of queues whose CreateQueue names none; empty: the form's own."""
    internal_engine: EngineName = ""
    """The engine of CNS's own queues; empty: the form's own. Change it only when they are empty."""

    recreate_wait_s: Annotated[int, Field(ge=0)] = 60
    """A deleted queue's name cannot be used again for this long (SQS: 60 s)."""
    purge_wait_s: Annotated[int, Field(ge=0)] = 60
    """The next purge of the same queue is refused for this long (SQS: 60 s)."""
    metrics_queues_max: Annotated[int, Field(ge=0, le=10_000)] = 500
    """Queues that have metrics of their own in each process; the others share an empty label."""

    queue_port: Literal["inline", "http"] = "inline"
    """The driver by which CNS calls CQS: in the same process and store, or over HTTP."""
    queue_url: HttpUrl = ""
    """The address of CQS for `queue_port=http`; empty: this service's own."""
    queue_secret: str = ""
    queue_key_id: QueueKeyId = ""
    """The access key that a CNS and a CQS with different data both are given. Empty: the data directory's own key."""

    body_bytes_max: Annotated[int, Field(ge=1)] = 6 * 1024 * 1024 + 256 * 1024
    """The largest request body. 1 MiB of text, the most that SQS and SNS take, is 6 MiB where JSON escapes each
    character as `\\u007f`; the rest is for the names around it."""
    header_bytes_max: Annotated[int, Field(ge=1)] = 16 * 1024
    buffered_bytes_max: Annotated[int, Field(ge=1)] = 32 * 1024 * 1024
    """Memory that all connections of a process may hold together: incomplete requests and untaken answers."""
    trusted_proxies: TrustedNetworks = ()
    """The networks of balancers and proxies that say who the client is; from others, what they say is ignored."""
    forwarded_header: Literal["x-forwarded-for", "forwarded"] = "x-forwarded-for"
    """The header by which they say it: X-Forwarded-For with X-Forwarded-Proto, or Forwarded of RFC 7239."""
    proxy_protocol: Literal["on", "off"] = "off"
    """on: connections of trusted proxies begin with a PROXY header, which says who the client is; headers of requests,
    which may be the client's own, say nothing. The address for administration takes none."""
    connections_max: Annotated[int, Field(ge=1)] = 15_000
    connections_per_address_max: Annotated[int, Field(ge=1)] = 12_000
    """Connections of one IPv4 address or one IPv6 /64; most of them by default, as all may come through one gateway."""

    stop_delay_s: Annotated[float, Field(ge=0, le=300, allow_inf_nan=False)] = 0.0
    """The time for which an API process that was told to stop goes on answering, so that balancers notice."""

    allowed_networks: Networks = None
    """Private networks that notifications may be sent to. Unset: loopback if this service listens on it, else none."""
    egress_proxy: Annotated[str, Field(repr=False)] = ""
    """http://user:password@host:port: connections to endpoints are made through this proxy, by CONNECT; empty: none."""
    egress_proxy_resolves: Literal["checked", "by-name"] = "checked"
    """checked: the proxy is asked for an address that this service resolved and checked. by-name: it is asked for the
    name, and judges alone where that may lead; endpoints that are addresses are checked nevertheless."""
    unreachable_endpoints: Literal["accept", "refuse"] = "accept"
    """Whether Subscribe refuses an HTTP(S) endpoint that refuses connections or whose name does not exist, as AWS does.
    By default it is accepted: programs that start together, as with compose, subscribe before their consumer listens,
    and few repeat a Subscribe, while the confirmation is sent again; the API process may not reach what workers reach;
    and a refusal tells the caller which ports of the allowed networks are open."""
    permanent_4xx: Literal["dead-letter", "aws"] = "dead-letter"
    """A 4xx answer sends the message to the dead-letter queue, or counts as delivered, as recorded from AWS."""
    worker_roles: WorkerRoles = ALL_ROLES
    """The roles of a worker process: some of producer, consumer, maintenance, separated by commas."""
    delivery_threads: Annotated[int, Field(ge=1, le=POOL_THREADS_MAX)] = 2
    redelivery_threads: Annotated[int, Field(ge=1, le=POOL_THREADS_MAX)] = 1
    delivery_timeout_s: Annotated[float, Field(gt=0, le=3_600, allow_inf_nan=False)] = 15.0
    producers: Annotated[int, Field(ge=1, le=64)] = 2
    endpoint_sends: Annotated[int, Field(ge=1)] = 10
    """Sends in flight to one endpoint from one worker."""
    endpoint_sends_fast: Annotated[int, Field(ge=1)] = 100
    """The same, to an endpoint whose p95 is below 100 ms."""
    breaker_failures: Annotated[int, Field(ge=0)] = 20
    """The circuit breaker opens after this many failed messages in a row: one is sent at a time. 0: never."""
    endpoint_hints: Path | None = None
    """The file `endpoints.json` of `cns pipeline health`: endpoints that are sent less at first; unset: no hints."""
    gateway_url: GatewayUrl = ""
    """SMS, mobile push, mail, Lambda and Firehose deliveries are posted to this URL; empty: the outbox keeps them."""

    smtp_url: Annotated[str, Field(repr=False)] = ""
    """The mail relay: smtp://user:password@host:587; empty: mails go to the gateway or outbox."""
    smtp_connections: Annotated[int, Field(ge=1, le=100)] = 4
    """Connections to the relay from one thread."""
    mail_from: MailAddress = ""
    """The sender's address of mails; empty: no-reply@ the host of `public_url`."""
    mail_sender_name: SenderName = "Notifications"
    """The sender's name of confirmations, and of mails of a topic that has no DisplayName."""
    mail_footer: MailFooter = "Please do not reply directly to this email."
    """The last line of notifications by mail; empty: none."""
    mail_rate: Annotated[int, Field(ge=0)] = 10
    """A subscription that is sent more mails a second than this is suspended, as by SNS; 0: never."""

    remote_queues: RemoteQueueList = ()
    """Queues of other services: a JSON array, or the path of a file that holds one."""

    sms_sandbox: Literal["on", "off"] = "off"
    """Whether every account is in the SMS sandbox: SMS go to verified numbers only."""

    broker: BrokerUrl = ""
    """Celery's broker, for control commands and triggers; empty: `redis`, else the Redis port of this machine."""
    maintenance_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    """`celery beat` triggers maintenance this often."""
    pipeline_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """`celery beat` triggers `cns pipeline run` this often, in one of the workers; 0: never."""

    # quotas of the SNS API, with AWS's values
    quota_topics: Annotated[int, Field(ge=0)] = 100_000
    quota_fifo_topics: Annotated[int, Field(ge=0)] = 1_000
    quota_topic_subscriptions: Annotated[int, Field(ge=0)] = 12_500_000
    quota_fifo_topic_subscriptions: Annotated[int, Field(ge=0)] = 100
    quota_pending_subscriptions: Annotated[int, Field(ge=0)] = 5_000
    """Per account."""
    quota_filter_policies: Annotated[int, Field(ge=0)] = 10_000
    """Per account."""
    quota_topic_filter_policies: Annotated[int, Field(ge=0)] = 200
    quota_filter_policy_keys: Annotated[int, Field(ge=1)] = 5
    quota_filter_policy_complexity: Annotated[int, Field(ge=1)] = 150
    quota_topic_replays: Annotated[int, Field(ge=0)] = 10
    """Replays of a topic that may run at once; AWS documents no limit."""

    events: Literal["on", "off"] = "on"
    """Whether events are written for the data pipeline."""
    events_dir: Path | None = None
    """The directory of event files; unset: `events` in the data directory."""
    events_segment_bytes_max: Annotated[int, Field(ge=1)] = 16 * 1024 * 1024
    events_segment_age_s: Annotated[int, Field(ge=1)] = 60
    """An event can be read by the pipeline at this age at the latest."""
    events_retention_s: Annotated[int, Field(ge=1)] = 7 * 24 * 3_600
    events_bytes_max: Annotated[int | None, Field(ge=1)] = None
    """The size of all segments together: ingested ones go first. Unset: a tenth of the disk, at least 1 GiB."""
    pipeline_keep_days: Annotated[int, Field(ge=0)] = 400
    """Days before the newest whose events stay in the pipeline's table; 0: all."""

    acts_retention_s: Annotated[int, Field(ge=1)] = 400 * 24 * 3_600
    acts_bytes_max: Annotated[int, Field(ge=1)] = 256 * 1024 * 1024
    """The size of the log of administrative acts: the oldest go first."""

    delivery_log_days: Annotated[int, Field(ge=0)] = 7
    """Delivery status logs are kept for this long; 0: none are written."""
    delivery_log_bytes_max: Annotated[int, Field(ge=1)] = 1024 * 1024 * 1024
    """The size of all delivery status logs of this machine; the oldest are removed first."""

    otel_endpoint: HttpUrl = ""
    """The OTLP collector's URL, such as http://localhost:4318: traces are exported to it; empty: none are made."""
    otel_sample_ratio: Annotated[float, Field(ge=0, le=1)] = 0.01
    """The share of calls that are traced, of those whose caller does not decide it."""
    otel_service_name: Annotated[str, Field(min_length=1)] = "cns"
    otel_queue_header: Literal["on", "off"] = "off"
    """Whether traced messages in queues get AWSTraceHeader, which SQS sets only where the sender does."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="before")
    @classmethod
    def _unset_empty_paths(cls, given: dict[str, object]) -> dict[str, object]:
        """An empty path would mean the working directory."""
        return {name: value for name, value in given.items() if value != "" or name not in _PATHS}

    @model_validator(mode="before")
    @classmethod
    def _apply_localstack_defaults(cls, given: dict[str, object]) -> dict[str, object]:
        if given.get("compat") != "localstack":
            return given
        strategy = os.environ.get(_LOCALSTACK_STRATEGY, "standard")
        styled = {"sqs_endpoint_strategy": strategy if strategy in get_args(UrlStyle) else "off"}
        return {**_LOCALSTACK, **styled, **given}

    @model_validator(mode="before")  # the last one, so the first to run
    @classmethod
    def _read_environment(cls, given: dict[str, object]) -> dict[str, object]:
        variables = {name.upper(): text for name, text in os.environ.items()}
        named = {name: variables.get(f"{PREFIX}{name.upper()}") for name in cls.model_fields}
        return {**{name: text for name, text in named.items() if text is not None}, **given}

    @field_validator("data")
    @classmethod
    def _check_socket_length(cls, value: Path) -> Path:
        path = value / SOCKET_FILE
        excess = len(os.fsencode(path)) - SOCKET_PATH_BYTES_MAX
        if excess > 0:
            raise ValueError(f"is {excess} bytes too long: {path} must have {SOCKET_PATH_BYTES_MAX} at most")
        return value

    @field_validator("compat")
    @classmethod
    def _check_compat(cls, value: str, info: ValidationInfo) -> str:
        """LocalStack's pages show every queue to any caller."""
        if value == "localstack" and info.data.get("auth") == "on":
            raise ValueError("there are no signatures with it: leave CNS_AUTH=on out")
        return value

    @field_validator("buffered_bytes_max")
    @classmethod
    def _check_buffer(cls, value: int, info: ValidationInfo) -> int:
        if value < info.data.get("body_bytes_max", 0):
            raise ValueError("less than CNS_BODY_BYTES_MAX: no request of that size could be read")
        return value

    @field_validator("proxy_protocol")
    @classmethod
    def _check_proxy_protocol(cls, value: str, info: ValidationInfo) -> str:
        if value == "on" and not info.data.get("trusted_proxies", True):
            raise ValueError("needs CNS_TRUSTED_PROXIES: a PROXY header of anyone else is not believed")
        return value

    @field_validator("cassandra_sites")
    @classmethod
    def _check_own_site(cls, value: str, info: ValidationInfo) -> str:
        own = info.data.get("cassandra_data_centre")
        if value and own is not None and own not in read_sites(value):
            raise ValueError(f"lacks {own}, which is CNS_CASSANDRA_DATA_CENTRE")
        return value

    @field_validator("tls_key", "client_ca")
    @classmethod
    def _check_tls_files(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value is not None and info.data.get("tls_cert", value) is None:
            raise ValueError("needs CNS_TLS_CERT: without it the service would answer without TLS")
        return value

    @field_validator("client_certificate")
    @classmethod
    def _check_client_certificate(cls, value: str, info: ValidationInfo) -> str:
        if value == "required" and info.data.get("client_ca", value) is None:
            raise ValueError("needs CNS_CLIENT_CA: without it no certificate is asked for")
        return value

    @field_validator("admin_bind")
    @classmethod
    def _check_admin_bind(cls, value: str, info: ValidationInfo) -> str:
        if value and read_bind_address(value)[1] == info.data.get("port"):
            raise ValueError("must have another port than CNS_PORT")
        return value

    @field_validator("smtp_url")
    @classmethod
    def _check_smtp_url(cls, value: str, info: ValidationInfo) -> str:
        if value:
            read_smtp_url(value)
        if value and not info.data.get("public_url") and info.data.get("host") not in LOOPBACK_HOSTS:
            raise ValueError("needs CNS_PUBLIC_URL, which the links in mails begin with: else a caller could say where")
        return value

    @field_validator("queue_url")
    @classmethod
    def _check_queue_url(cls, value: str, info: ValidationInfo) -> str:
        if not value and info.data.get("queue_port") == "http" and info.data.get("client_certificate") == "required":
            raise ValueError("is required: with CNS_CLIENT_CERTIFICATE=required the service cannot call itself")
        return value

    @field_validator("egress_proxy")
    @classmethod
    def _check_egress_proxy(cls, value: str) -> str:
        if value:
            read_proxy_url(value)
        return value

    @field_validator("egress_proxy_resolves")
    @classmethod
    def _check_egress_proxy_resolves(cls, value: str, info: ValidationInfo) -> str:
        if value == "by-name" and info.data.get("egress_proxy") == "":
            raise ValueError("needs CNS_EGRESS_PROXY: without a proxy nothing would check where a name leads")
        return value

    @field_validator("queue_key_id")
    @classmethod
    def _check_queue_key(cls, value: str, info: ValidationInfo) -> str:
        if bool(value) != bool(info.data.get("queue_secret")):
            raise ValueError("CNS_QUEUE_KEY_ID and CNS_QUEUE_SECRET go together")
        return value

    def site_replicas(self) -> dict[str, int]:
        """The replicas of each site; none where there is only one."""
        return read_sites(self.cassandra_sites)

    @property
    def listens_on_loopback(self) -> bool:
        return self.host in LOOPBACK_HOSTS

    def networks(self) -> tuple[str, ...]:
        """Private networks that notifications may be sent to."""
        if self.allowed_networks is not None:
            return tuple(str(network) for network in self.allowed_networks)
        return LOOPBACK if self.listens_on_loopback else ()

    def egress(self) -> EgressProxy | None:
        """The proxy through which connections to endpoints are made."""
        return read_proxy_url(self.egress_proxy) if self.egress_proxy else None

    @property
    def names_go_to_proxy(self) -> bool:
        return self.egress_proxy_resolves == "by-name"

    @property
    def events_path(self) -> Path:
        """The directory of event files."""
        return self.data / "events" if self.events_dir is None else self.events_dir

    @property
    def acts_path(self) -> Path:
        """The directory of the log of administrative acts."""
        return self.data / "acts"

    @property
    def delivery_logs_path(self) -> Path:
        """The directory of delivery status logs."""
        return self.data / "logs"

    @property
    def socket_path(self) -> Path:
        """The Unix socket of the store host."""
        return self.data / SOCKET_FILE


def load_settings(data: Path | None = None) -> Settings:
    """Read the environment; `data` overrides CNS_DATA. Raises StartError."""
    try:
        return Settings() if data is None else Settings(data=data)
    except ValidationError as error:
        raise StartError(describe(error, Settings.model_fields, _SECRET), EXIT_SETTINGS_WRONG) from None


def unread_settings() -> list[str]:
    """A line for each environment variable that looks like a setting and is none."""
    return unread_variables(os.environ, Settings.model_fields)
