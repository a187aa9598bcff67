"""LocalStack's `/_aws/sqs/messages`: the messages of a queue, for tests that inspect it without receiving.

It answers as ReceiveMessage does, in three protocols, so an SDK may use it as its endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cns_common.aws.auth.authentication import Authenticator
from cns_common.aws.call import Call, Params, Result, root_caller
from cns_common.aws.protocol import errors
from cns_common.aws.protocol.errors import HttpAnswer
from cns_common.aws.protocol.form import read_pairs
from cns_common.aws.protocol.models import load_service
from cns_common.aws.protocol.names import ServiceName
from cns_common.errors import CnsError, RequestError
from cns_common.ids import uuid_text
from cns_server.localstack.body import read_body
from cqs.messages.peek import QueuePeeker
from cqs.operations.peek import PeekOptions, peek
from cqs.queues.names import QueueKey
from cqs.queues.urls import no_such_queue, queue_in_named_region, queue_key
from cqs.service import QueueService

PATH = "/_aws/sqs/messages"
BODY_BYTES_MAX = 64 * 1_024
_METHODS = ["GET", "POST"]
_ACTION = "ReceiveMessage"
_TARGET = f"AmazonSQS.{_ACTION}"
_JSON = "application/x-amz-json-1.0"
_NO_ACCOUNT = root_caller("")
"""The pages are not authenticated: every request names its queue's account."""


class WireProtocol(NamedTuple):
    content_type: str
    render: Callable[[Result, str], bytes]
    render_error: Callable[[ServiceName, BaseException, str], HttpAnswer]


class LocalstackMessages:
    def __init__(self, queues: QueueService, authenticator: Authenticator, region: str) -> None:
        """`region` is the region of requests that name none."""
        self._cache = queues.cache
        self._peeking = QueuePeeker(queues.clock)
        self._authenticator = authenticator
        self._region = region
        model = load_service("sqs").operations[_ACTION]
        self._parse_json = model.parse_json
        self._json = WireProtocol(_JSON, lambda result, _: model.render_json(result), errors.render_error_json)
        self._xml = WireProtocol("text/xml", model.render_xml, errors.render_error_xml)
        self._query_json = WireProtocol("application/json", model.render_query_json, errors.render_error_query_json)

    def routes(self) -> list[Route]:
        """SDKs may send the path with a slash at its end."""
        return [
            *(Route(path, self._answer_request, methods=_METHODS) for path in (PATH, f"{PATH}/")),
            Route(f"{PATH}/{{region}}/{{account}}/{{name}}", self._answer_path, methods=_METHODS),
        ]

    async def _answer_request(self, request: Request) -> Response:
        return await self._answer(request, self._queue_of)

    async def _answer_path(self, request: Request) -> Response:
        region, account, name = (request.path_params[word] for word in ("region", "account", "name"))
        return await self._answer(request, lambda call, _: queue_key(call, account, name), region)

    async def _answer(
        self, request: Request, queue_of: Callable[[Call, Params], QueueKey], region: str = ""
    ) -> Response:
        request_id = uuid_text()
        protocol = self._protocol(request)
        try:
            fields, params = await self._read(request)
            key = queue_of(self._call(request, region), params)
            view = self._cache.cached(key) or await self._cache.find(key)
            if view is None:
                raise no_such_queue()
            result = await peek(self._peeking, view, _peek_options(fields))
        except CnsError as error:
            status, headers, body = protocol.render_error("sqs", error, request_id)
            return Response(body, status, {name.decode(): value.decode() for name, value in headers})
        result_headers = {"content-type": protocol.content_type, "x-amzn-requestid": request_id}
        return Response(protocol.render(result, request_id), headers=result_headers)

    def _protocol(self, request: Request) -> WireProtocol:
        if _is_json(request):
            return self._json
        return self._query_json if "application/json" in request.headers.get("accept", "") else self._xml

    async def _read(self, request: Request) -> tuple[Mapping[str, str], Params]:
        """The fields of query string and form, and the parameters of ReceiveMessage. Raises RequestError."""
        body = await read_body(request, BODY_BYTES_MAX)
        if body is None:
            raise RequestError("RequestEntityTooLarge", "The request is larger than any ReceiveMessage.")
        as_json = _is_json(request)
        form = body if request.method == "POST" and not as_json else b""
        fields = dict(read_pairs(request.scope["query_string"], form))
        if request.headers.get("x-amz-target", _TARGET) != _TARGET or fields.get("Action", _ACTION) != _ACTION:
            raise RequestError("InvalidRequest", "This endpoint only accepts ReceiveMessage calls")
        if as_json and body:
            return fields, self._parse_json(body)
        return fields, {"QueueUrl": fields.get("QueueUrl", "")}

    def _queue_of(self, call: Call, params: Params) -> QueueKey:
        url: str = params.get("QueueUrl") or ""
        if not url:
            raise no_such_queue()
        try:
            return queue_in_named_region(call, url)
        except RequestError:
            raise RequestError("InvalidAddress", f"The address {url} is not valid for this endpoint.") from None

    def _call(self, request: Request, region: str) -> Call:
        authorization = request.headers.get("authorization", "").encode()
        scoped = self._authenticator.scope_of(authorization, request.scope["query_string"])
        return Call(
            caller=_NO_ACCOUNT,
            region=region or (scoped.region if scoped else self._region),
            request_id="",
            base_url=str(request.base_url).rstrip("/"),
        )


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith(_JSON)


def _peek_options(fields: Mapping[str, str]) -> PeekOptions:
    invisible, delayed = (fields.get(name, "").lower() in ("true", "1") for name in ("ShowInvisible", "ShowDelayed"))
    return PeekOptions(invisible=invisible, delayed=delayed)
