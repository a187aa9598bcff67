"""The whole API in this process, in the embedded and the cluster form, called at its front door without signatures."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
from botocore.serialize import create_serializer

from cns_backend.backend import Backend
from cns_backend.cluster import open_cluster_backend
from cns_backend.store_host import StoreHost
from cns_common.aws.http_request import HttpRequest
from cns_common.aws.protocol.errors import HttpAnswer
from cns_common.aws.protocol.names import ServiceName
from cns_common.cassandra.connection import CassandraAddress
from cns_common.configuration.settings import Settings
from cns_server.api import Api
from cqs.engines.contract import Engine
from lab.harness.processes import METRICS_TOKEN
from tests.protocol.support import botocore_model, query_model

REGION = "us-east-1"
ACCOUNT = "000000000000"
MASTER_KEY = base64.b64encode(b"k" * 32).decode()
OTHER_ENGINE = "other"
HOST = b"127.0.0.1:6059"
CREDENTIAL = "Credential={}/20260101/{}/{}/aws4_request"
PROTOCOLS: tuple[tuple[ServiceName, str], ...] = (("sqs", "json"), ("sqs", "query"), ("sns", "query"))
_SERIALIZERS = {name: create_serializer(name, include_validation=False) for name in ("json", "query")}


class ApiAnswer(NamedTuple):
    """An answer: `code` is the error's in AWS Query, in both protocols; '' for a result."""

    status: int
    code: str
    body: bytes


class FormOfApi:
    """`await api("sqs", "json", "SendMessage", QueueUrl=…)`; pages and REST by `http`."""

    def __init__(self, api: Api, backend: Backend) -> None:
        self.front = api.front
        self.backend = backend
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(api.app), base_url=f"http://{HOST.decode()}")

    async def __call__(self, service: ServiceName, protocol: str, action: str, /, **members: Any) -> ApiAnswer:
        answer = await self.front.answer(_request(service, protocol, action, members))
        return ApiAnswer(answer.status, _code(protocol, answer), answer.body)


def _request(service: ServiceName, protocol: str, action: str, members: Mapping[str, Any]) -> HttpRequest:
    model = botocore_model(service) if protocol == "json" else query_model(service)
    written = _SERIALIZERS[protocol].serialize_to_request(dict(members), model.operation_model(action))
    body = written["body"] if protocol == "json" else urlencode(written["body"]).encode()
    headers = {name.lower(): value for name, value in written["headers"].items()}
    headers["authorization"] = credentials(service)
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    return HttpRequest("POST", "/", b"/", b"", [(b"host", HOST), *fields], "http", "127.0.0.1", lambda _: None, body)


def _code(protocol: str, answer: HttpAnswer) -> str:
    if answer.status == 200:
        return ""
    if protocol == "json":
        return dict(answer.headers)[b"x-amzn-query-error"].decode().partition(";")[0]
    return answer.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()


@asynccontextmanager
async def embedded_api(directory: Path, engine: Engine | None = None) -> AsyncIterator[FormOfApi]:
    """With an `engine`, new queues are stored in that one."""
    settings = Settings(data=directory, auth="off", events="off", recreate_wait_s=0, reserve_bytes=0)
    host = StoreHost(settings)
    await host.start()
    try:
        backend = host.backend
        if engine is not None:
            backend = replace(backend, engines={**backend.engines, OTHER_ENGINE: engine}, default_engine=OTHER_ENGINE)
        yield FormOfApi(await Api.build(settings, backend), backend)
    finally:
        await host.close()


def cluster_settings(directory: Path, place: CassandraAddress, **more: Any) -> Settings:
    return Settings(
        data=directory,
        events="off",
        store="cassandra",
        cassandra=f"{place.hosts[0]}:{place.port}",
        cassandra_keyspace=place.keyspace,
        master_key=MASTER_KEY,
        **more,
    )


@asynccontextmanager
async def cluster_api(directory: Path, place: CassandraAddress, redis: str = "") -> AsyncIterator[FormOfApi]:
    """Needs a keyspace with its tables."""
    settings = cluster_settings(
        directory, place, auth="off", recreate_wait_s=0, redis=redis, metrics_token=METRICS_TOKEN
    )
    async with open_cluster_backend(settings) as backend:
        api = await Api.build(settings, backend)
        yield FormOfApi(api, backend)


def credentials(service: ServiceName) -> str:
    """An `Authorization` header of the account, as those take it who check no signatures."""
    return f"AWS4-HMAC-SHA256 {CREDENTIAL.format(ACCOUNT, REGION, service)}"


def json_of(answer: ApiAnswer) -> Any:
    return json.loads(answer.body)
