"""A service behind its HTTP interface: raw requests to a port, signed or not, and the raw responses.

`Door` is that of the queue service; tests/integration/sns/sns_door.py has the one of the notification service.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from uvicorn.config import Config
from uvicorn.server import ServerState

from cns_common.aws import sts
from cns_common.aws.auth.accounts import AccessKey, KeyRing
from cns_common.aws.auth.authentication import Authenticator
from cns_common.aws.auth.request_signing import SigningCredential, sign
from cns_common.aws.front_door import FrontDoor, Service
from cns_common.aws.protocol.models import load_service
from cns_common.clock import Clock
from cns_server.http.connection_table import ConnectionLimits, ConnectionTable
from cns_server.http.protocol import ApiProtocol
from cqs.api import ANONYMOUS, operations
from tests.integration.cqs.sqs import ACCOUNT, OTHER_ACCOUNT, Sqs

REGION = "us-east-1"
OWNER = AccessKey(ACCOUNT, "AKIAOWNEROWNEROWNERO", "secret-of-the-owner", 0)
STRANGER = AccessKey(OTHER_ACCOUNT, "AKIASTRANGERSTRANGER", "secret-of-the-stranger", 0)
JSON = "application/x-amz-json-1.0"
FORM = "application/x-www-form-urlencoded"
SQS_VERSION = "2012-11-05"
NO_QUEUE = (
    400,
    "AWS.SimpleQueueService.NonExistentQueue;Sender",
    "com.amazonaws.sqs#QueueDoesNotExist",
    "The specified queue does not exist.",
)
NO_QUEUE_QUERY = (
    400,
    "AWS.SimpleQueueService.NonExistentQueue",
    "Sender",
    "The specified queue does not exist for this wsdl version.",
)
BODY_BYTES_MAX = 2 * 1_048_576
HEAD_BYTES_MAX = 16 * 1_024


@dataclass(frozen=True, kw_only=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def xml(self) -> ElementTree.Element:
        """The element's children by their names without namespace."""
        root = ElementTree.fromstring(self.body)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        return root

    def texts(self, path: str) -> list[str]:
        """The names of the elements, in the order of the XML."""
        return [element.text or "" for element in self.xml().findall(path)]

    @property
    def fault(self) -> tuple[int, str, str, str]:
        """An error of AWS JSON: status, header with the Query code, shape, text."""
        told = self.json()
        return self.status, self.headers["x-amzn-query-error"], told["__type"], told.get("message", "")

    @property
    def query_fault(self) -> tuple[int, str, str, str]:
        """An error of AWS Query: status, code, type, text."""
        (code,), (side,), (text,) = (self.texts(f"Error/{name}") for name in ("Code", "Type", "Message"))
        return self.status, code, side, text


class HttpDoor:
    """A listening port. Calls are signed at the current time unless told otherwise."""

    def __init__(self, front: FrontDoor, clock: Clock, port: int) -> None:
        self.front = front
        self.clock = clock
        self.port = port
        self.host = f"127.0.0.1:{port}"
        self.url = f"http://{self.host}"

    async def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"", query: str = ""
    ) -> Reply:
        """Send one raw request on its own connection."""
        target = f"{path}?{query}" if query else path
        fields = {"host": self.host, "content-length": str(len(body)), "connection": "close", **(headers or {})}
        head = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write("\r\n".join(head).encode("latin-1") + body)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        head_read, _, body_read = answer.partition(b"\r\n\r\n")
        status_line, *lines = head_read.decode("latin-1").split("\r\n")
        read = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return Reply(status=int(status_line.split()[1]), headers=read, body=body_read)

    async def signed(  # noqa: PLR0913  # each part of a signed request may be wrong in a test
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        query: str = "",
        *,
        key: AccessKey = OWNER,
        service: str = "sqs",
        region: str = REGION,
        at_ms: int | None = None,
    ) -> Reply:
        fields = {"host": self.host, **headers}
        fields |= sign(
            method=method,
            path=path,
            query=query,
            headers=fields,
            body=body,
            credential=SigningCredential(key.key_id, key.secret, region, service),
            now_ms=self.clock.wall_ms() if at_ms is None else at_ms,
        )
        return await self.send(method, path, fields, body, query)

    async def query(
        self,
        action: str,
        parameters: Mapping[str, object] | None = None,
        *,
        path: str = "/",
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        version: str = SQS_VERSION,
        **signing: Any,
    ) -> Reply:
        pairs = urlencode({"Action": action, "Version": version, **(parameters or {})}, quote_via=quote)
        if method == "GET":
            return await self.signed("GET", path, headers or {}, query=pairs, **signing)
        return await self.signed("POST", path, {"content-type": FORM, **(headers or {})}, pairs.encode(), **signing)


class Door(HttpDoor):
    """Calls as the queues' owner unless told otherwise."""

    def __init__(self, sqs: Sqs, front: FrontDoor, port: int) -> None:
        super().__init__(front, sqs.clock, port)
        self.sqs = sqs

    async def target(self, target: str, body: bytes, *, path: str = "/", **signing: Any) -> Reply:
        """A body in AWS JSON with any content."""
        return await self.signed("POST", path, {"content-type": JSON, "x-amz-target": target}, body, **signing)

    async def json(self, action: str, *, path: str = "/", key: AccessKey = OWNER, **members: object) -> Reply:
        return await self.target(f"AmazonSQS.{action}", json.dumps(members).encode(), path=path, key=key)

    async def queue(self, name: str = "q", **attributes: str) -> str:
        """The URL of a new queue."""
        created = await self.json("CreateQueue", QueueName=name, Attributes=attributes)
        url: str = created.json()["QueueUrl"]
        return url

    async def attributes(self, url: str, *names: str) -> dict[str, str]:
        shown = await self.json("GetQueueAttributes", QueueUrl=url, AttributeNames=list(names) or ["All"])
        attributes: dict[str, str] = shown.json().get("Attributes", {})
        return attributes


@asynccontextmanager
async def open_door(sqs: Sqs, *, enforced: bool = True, log_calls: bool = False) -> AsyncIterator[Door]:
    """The interface of this queue service on a free port. Not `enforced`, it accepts any credentials."""
    front = FrontDoor(
        {
            "sqs": Service(model=load_service("sqs"), operations=operations(sqs.service), anonymous=ANONYMOUS),
            "sns": Service(model=load_service("sns"), operations={}),
            "sts": Service(model=load_service("sts"), operations=sts.operations()),
        },
        Authenticator(KeyRing([OWNER, STRANGER]), sqs.clock, enforced=enforced, region=REGION, account_id=ACCOUNT),
        public_url="",
        body_bytes_max=BODY_BYTES_MAX,
        log_calls=log_calls,
    )
    async with listen_on_free_port(front) as port:
        yield Door(sqs, front, port)


@asynccontextmanager
async def listen_on_free_port(
    front: FrontDoor, table: ConnectionTable | None = None, call_s: float = math.inf
) -> AsyncIterator[int]:
    """The interface on a free port. `table` has its connections; time limits are checked only by a sweep."""
    if table is None:
        table = ConnectionTable(ConnectionLimits())
    served = ApiProtocol.serving(front, HEAD_BYTES_MAX, table, call_s)
    config = Config(front, http=served, lifespan="off", log_config=None)
    config.load()
    state = ServerState()

    def protocol() -> asyncio.Protocol:
        return served(config, state, {})

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in list(state.connections):
            connection.shutdown()
        await server.wait_closed()
