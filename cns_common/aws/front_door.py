"""The front door: turns the bytes of an AWS call into an operation, and its result into a response.

Protocol → authentication → the service's table → operation → protocol. `claims` is false for every other path (health,
metrics, pages), which goes to the FastAPI app.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import msgspec
import structlog

from cns_common.aws.asgi_caller import AsgiCaller, Message, Receive, read_body
from cns_common.aws.auth.authentication import Authenticator
from cns_common.aws.auth.signature import UnknownKey
from cns_common.aws.call import INTERNAL_ACCOUNT, Call, Operation, Params, Result
from cns_common.aws.cors import CorsPolicy
from cns_common.aws.held_calls import HeldCalls
from cns_common.aws.http_request import HttpRequest
from cns_common.aws.protocol import errors
from cns_common.aws.protocol.errors import HttpAnswer
from cns_common.aws.protocol.form import read_pairs
from cns_common.aws.protocol.models import OperationModel, ServiceModel
from cns_common.aws.protocol.names import ServiceName
from cns_common.aws.request_counters import RequestCounters
from cns_common.errors import CnsError, OutcomeUnknown, RequestError, StoreUnavailable
from cns_common.ids import uuid_text
from cns_common.metrics.catalogue import API_CALL_FAILURES, API_CALL_SECONDS, API_CALLS
from cns_common.metrics.histogram import Histogram
from cns_common.metrics.model import Sample

Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

CALL_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
"""A long poll waits 20 s at most."""
ACTION_CHARS_MAX = 100
"""Length at which the name of an unknown action is cut in the error that refuses it."""
_SERVICE_BY_VERSION: Mapping[str, ServiceName] = {"2012-11-05": "sqs", "2010-03-31": "sns", "2011-06-15": "sts"}
_SERVICE_BY_HOST: Mapping[bytes, ServiceName] = {b"sqs": "sqs", b"sns": "sns", b"sts": "sts"}
"""Keys are the first label of a host such as sqs.us-east-1.localhost.localstack.cloud."""
_QUEUE_PATH = re.compile(r"/(?:(?:queue/[a-z0-9-]+/)?[0-9]{12}|queue)/[^/]+/?\Z")
_JSON_TYPE = (b"content-type", b"application/x-amz-json-1.0")
_XML_TYPE = (b"content-type", b"text/xml")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The operations of one service: how they are parsed and rendered, and what they call."""

    model: ServiceModel
    operations: Mapping[str, Operation]
    anonymous: frozenset[str] = frozenset()
    """Operations that accept unsigned calls and authorize them themselves."""
    extensions: Mapping[str, Operation] = field(default_factory=dict)
    """AWS JSON operations of the reserved account; to other callers they do not exist."""


class FrontDoor:
    def __init__(
        self,
        services: Mapping[ServiceName, Service],
        authenticator: Authenticator,
        *,
        public_url: str,
        body_bytes_max: int,
        log_calls: bool = False,
        cors: CorsPolicy | None = None,
        held: HeldCalls | None = None,
    ) -> None:
        """`log_calls`: whether each call is logged as `api_call.answered`, at the level debug."""
        self._services = services
        self.cors = cors
        self._log_calls = log_calls
        self.held = held
        self._authenticator = authenticator
        self._public_url = public_url.rstrip("/")
        self.body_bytes_max = body_bytes_max
        sqs = services["sqs"]
        self._targets = {
            f"AmazonSQS.{name}".encode(): (sqs.model.operations[name], operation, name in sqs.anonymous)
            for name, operation in sqs.operations.items()
        }
        self._extensions = {
            f"AmazonSQS.{name}".encode(): (sqs.model.operations[name], operation)
            for name, operation in sqs.extensions.items()
        }
        self.landing: Callable[[HttpRequest], Coroutine[Any, Any, HttpAnswer]] | None = None
        """Answers a browser that opens the address of the port."""
        self.leaving = False
        """The process will stop: calls are answered, and each answer ends its connection."""
        self.stopping = False
        self._calls = Counter({name: 0 for service in services.values() for name in service.operations})
        self._failures: Counter[tuple[str, str]] = Counter()
        self.requests = RequestCounters()
        self._seconds = Histogram(API_CALL_SECONDS, CALL_BOUNDS_S)

    @staticmethod
    def claims(path: str) -> bool:
        """Whether a request with this path is an AWS call."""
        return path == "/" or path == "" or _QUEUE_PATH.match(path) is not None

    def samples(self) -> list[Sample]:
        return [
            *[API_CALLS.sample(n, operation=name) for name, n in self._calls.items()],
            *self._seconds.samples(),
            *[API_CALL_FAILURES.sample(n, operation=name, code=code) for (name, code), n in self._failures.items()],
        ]

    def leave(self) -> None:
        """Have callers go to another process: no connection outlives its next answer."""
        self.leaving = True

    def stop(self) -> None:
        """Refuse new calls with 503, which SDKs retry."""
        self.leaving = self.stopping = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request as an ASGI app."""
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        client = scope.get("client")
        caller = AsgiCaller(receive)
        request = HttpRequest(
            method=scope["method"],
            path=scope["path"],
            raw_path=scope.get("raw_path") or b"/",
            query=scope["query_string"],
            headers=headers,
            scheme=scope["scheme"],
            source_ip=client[0] if client else "",
            when_gone=caller.when_gone,
            body=await read_body(receive, self.body_bytes_max),
        )
        try:
            status, reply_headers, reply = await self.answer(request)
        finally:
            caller.forget()
        reply_headers.append((b"content-length", b"%d" % len(reply)))
        await send({"type": "http.response.start", "status": status, "headers": reply_headers})
        await send({"type": "http.response.body", "body": reply})

    def answer(self, request: HttpRequest) -> Coroutine[Any, Any, HttpAnswer]:
        """Answer a request. Never raises: an error becomes a response in the caller's protocol."""
        if self.landing is not None and request.opens_page:
            return self.landing(request)
        return self._answer(request) if self.cors is None else self.cors.answer(request, self._answer)

    def _answer(self, request: HttpRequest) -> Coroutine[Any, Any, HttpAnswer]:
        if self.held is not None and self.held.absence() is not None:
            return self.held.answer(request, self._answer_now, self._refuse)
        return self._answer_now(request)

    def _answer_now(self, request: HttpRequest) -> Coroutine[Any, Any, HttpAnswer]:
        target = request.fields.get(b"x-amz-target")
        if target is not None:
            return self._json(request, target)
        return self._query(request)

    def _refuse(self, request: HttpRequest, error: CnsError) -> HttpAnswer:
        request_id = uuid_text()
        self._count("?", error, request_id)
        refusal = errors.render_refusal(error, request.fields, request_id)
        return self.requests.add("", "sqs", "?", len(request.body or b""), refusal)

    # -- AWS JSON 1.0 -------------------------------------------------------------------------------------------------

    async def _json(self, request: HttpRequest, target: bytes) -> HttpAnswer:
        request_id = uuid_text()
        name, account, request_bytes = "?", "", len(request.body or b"")
        began_s = perf_counter()
        try:
            if request.body is None:
                raise _too_large()
            known = self._targets.get(target)
            if known is not None:
                model, operation, anonymous = known
                name = model.name
                try:
                    call = self._call(request, request.body, "sqs", request_id, anonymous=anonymous)
                except UnknownKey:  # a call of a known key takes no further coroutine
                    call = await self._known_call(request, request.body, "sqs", request_id, anonymous=anonymous)
            else:
                model, operation = self._extension(target)
                call = await self._internal_call(request, request.body, request_id)
                name = model.name
            self._calls[name] += 1
            account = call.caller.account
            answering = operation(call, model.parse_json(request.body))
            del request, call  # a long poll must not keep its request in memory
            result = await answering
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001  # the last resort of every JSON request
            error = self._count(name, raised, request_id)
            refusal = errors.render_error_json("sqs", error, request_id)
            if self._log_calls:
                self._log_call(name, account, refusal.status, began_s, request_id, error)
            return self.requests.add(account, "sqs", name, request_bytes, refusal)
        if self._log_calls:
            self._log_call(name, account, 200, began_s, request_id)
        answer = HttpAnswer(200, [_JSON_TYPE, (b"x-amzn-requestid", request_id.encode())], model.render_json(result))
        if account == INTERNAL_ACCOUNT:
            return answer
        self._seconds.observe(perf_counter() - began_s, "sqs", name)
        return self.requests.add(account, "sqs", name, request_bytes, answer)

    async def run(self, service: ServiceName, name: str, call: Call, params: Params) -> Result:
        """The result of an operation for a caller that is not an AWS client; counted like an AWS call.

        `params` are as in AWS JSON. Raises what the operation raises.
        """
        table = self._services[service]
        self._calls[name] += 1
        began_s = perf_counter()
        try:
            request = _encoded(params)
            result = await table.operations[name](call, table.model.operations[name].parse_json(request))
        except Exception as error:  # counted like that of an AWS call; the caller answers it
            self._count(name, error, call.request_id)
            raise
        self._time(service, call.caller.account, name, began_s)
        answer = HttpAnswer(200, [], msgspec.json.encode(result))
        self.requests.add(call.caller.account, service, name, len(request), answer)
        return result

    def time_rest(self, operation: str, began_s: float) -> None:
        """Count the response time of an operation of the REST API, by the `perf_counter` at its begin."""
        self._seconds.observe(perf_counter() - began_s, "rest", operation)

    def _time(self, service: ServiceName, account: str, operation: str, began_s: float) -> None:
        if account != INTERNAL_ACCOUNT:
            self._seconds.observe(perf_counter() - began_s, service, operation)

    def _extension(self, target: bytes) -> tuple[OperationModel, Operation]:
        extension = self._extensions.get(target)
        if extension is None:
            raise _unknown_operation()
        return extension

    async def _internal_call(self, request: HttpRequest, body: bytes, request_id: str) -> Call:
        """The call of an extension. Other accounts get "unknown operation", whatever else is wrong."""
        try:
            call = await self._known_call(request, body, "sqs", request_id, anonymous=False)
        except RequestError:
            raise _unknown_operation() from None
        if call.caller.account != INTERNAL_ACCOUNT:
            raise _unknown_operation()
        return call

    # -- AWS Query ----------------------------------------------------------------------------------------------------

    async def _query(self, request: HttpRequest) -> HttpAnswer:
        request_id = uuid_text()
        as_json = b"application/json" in request.fields.get(b"accept", b"")
        on_queue_path = request.path not in ("", "/")
        service: ServiceName = "sqs" if on_queue_path else "sns"
        name, account, request_bytes = "?", "", len(request.body or b"")
        began_s = perf_counter()
        try:
            if request.body is None:
                raise _too_large()
            pairs = read_pairs(request.query, request.body if request.method == "POST" else b"")
            fields = dict(pairs)
            as_json = as_json or fields.get("ContentType") == "JSON"  # as boto 2 asks for it
            action = fields.get("Action", "")
            if not action and on_queue_path and request.method == "GET":
                unknown = HttpAnswer(404, [_XML_TYPE], b"<UnknownOperationException/>")
                return self.requests.add(account, service, name, request_bytes, unknown)
            service = self._service(fields.get("Version", ""), request, service)
            model, operation = self._find(service, action, on_queue_path=on_queue_path)
            name = action
            anonymous = name in self._services[service].anonymous
            call = await self._known_call(request, request.body, service, request_id, anonymous=anonymous)
            self._calls[name] += 1
            account = call.caller.account
            answering = operation(call, model.parse_query(pairs))
            del request, call, pairs, fields  # as in `_json`
            result = await answering
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001  # the last resort of every Query request
            error = self._count(name, raised, request_id)
            render = errors.render_error_query_json if as_json else errors.render_error_xml
            refusal = render(service, error, request_id)
            if self._log_calls:
                self._log_call(name, account, refusal.status, began_s, request_id, error)
            return self.requests.add(account, service, name, request_bytes, refusal)
        if self._log_calls:
            self._log_call(name, account, 200, began_s, request_id)
        request_header = (b"x-amzn-requestid", request_id.encode())
        if as_json:
            rendered = model.render_query_json(result, request_id)
            answer = HttpAnswer(200, [(b"content-type", b"application/json"), request_header], rendered)
        else:
            answer = HttpAnswer(200, [_XML_TYPE, request_header], model.render_xml(result, request_id))
        self._time(service, account, name, began_s)
        return self.requests.add(account, service, name, request_bytes, answer)

    def _service(self, version: str, request: HttpRequest, default: ServiceName) -> ServiceName:
        by_version = _SERVICE_BY_VERSION.get(version)
        if by_version is not None:
            return by_version
        scoped = self._authenticator.scope_of(request.fields.get(b"authorization", b""), request.query)
        if scoped is not None and scoped.service in self._services:
            return scoped.service  # type: ignore[return-value]  # a key of the table is a ServiceName
        return _SERVICE_BY_HOST.get(request.fields.get(b"host", b"").partition(b".")[0], default)

    def _find(self, service: ServiceName, name: str, *, on_queue_path: bool) -> tuple[OperationModel, Operation]:
        table = self._services[service]
        operation = table.operations.get(name)
        if operation is None or (on_queue_path and name in ("ListQueues", "CreateQueue")):
            shown = f" {name[:ACTION_CHARS_MAX]}" if name else ""
            raise RequestError("InvalidAction", f"The action{shown} is not valid for this endpoint.")
        return table.model.operations[name], operation

    # -- both ---------------------------------------------------------------------------------------------------------

    async def _known_call(
        self, request: HttpRequest, body: bytes, service: ServiceName, request_id: str, *, anonymous: bool
    ) -> Call:
        """Like `_call`. A key that this process does not know may be new: it looks before it refuses."""
        try:
            return self._call(request, body, service, request_id, anonymous=anonymous)
        except UnknownKey:
            if not await self._authenticator.learn_keys():
                raise
        return self._call(request, body, service, request_id, anonymous=anonymous)

    def _call(
        self, request: HttpRequest, body: bytes, service: ServiceName, request_id: str, *, anonymous: bool
    ) -> Call:
        if self.stopping:
            raise StoreUnavailable("stopping")
        fields = request.fields
        identity = self._authenticator.identify(request, body, service, anonymous=anonymous)
        return Call(
            caller=identity.caller,
            region=identity.region,
            request_id=request_id,
            base_url=self._public_url or request.origin,
            source_ip=request.source_ip,
            secure=request.scheme == "https",
            client_subject=request.client_subject,
            headers=fields,
            path=request.path,
            trace_header=fields.get(b"x-amzn-trace-id", b"").decode("latin-1"),
            policies_enforced=self._authenticator.enforced,
            when_gone=request.when_gone,
            extend=request.extend,
        )

    def _log_call(
        self, name: str, account: str, status: int, began_s: float, request_id: str, error: Exception | None = None
    ) -> None:
        log.debug(
            "api_call.answered",
            operation=name,
            account=account,
            status=status,
            error=None if error is None else _code_of(error),
            ms=round((perf_counter() - began_s) * 1000, 3),
            request_id=request_id,
        )

    def _count(self, name: str, raised: BaseException, request_id: str) -> Exception:
        """Count and log an error. Returns the one to answer with."""
        error = raised if isinstance(raised, Exception) else OutcomeUnknown("the call was not finished in time")
        self._failures[(name, _code_of(error))] += 1
        if isinstance(error, StoreUnavailable | OutcomeUnknown):
            log.warning("api_call.failed", operation=name, request_id=request_id, error=str(error))
        elif not isinstance(error, CnsError):
            log.error("api_call.crashed", operation=name, request_id=request_id, exc_info=error)
        return error


def _encoded(params: Params) -> bytes:
    """Raises RequestError for a lone surrogate, which JSON can name and UTF-8 cannot encode."""
    try:
        return msgspec.json.encode(params)
    except UnicodeEncodeError:
        raise RequestError("SerializationException", "A lone surrogate is not text.") from None


def _code_of(error: Exception) -> str:
    return error.code if isinstance(error, RequestError) else type(error).__name__


def _unknown_operation() -> RequestError:
    return RequestError("InvalidAction", "")


def _too_large() -> RequestError:
    return RequestError("RequestEntityTooLarge", "The request is larger than any operation takes.")
