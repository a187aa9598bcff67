"""The notification service as SDKs see it: botocore writes the requests and reads the responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode

from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from msgspec.structs import replace

from cns.api import ANONYMOUS, operations
from cns_common.aws.auth.accounts import AccessKey, KeyRing
from cns_common.aws.auth.authentication import Authenticator
from cns_common.aws.front_door import FrontDoor, Service
from cns_common.aws.protocol.models import load_service
from tests.integration.cqs import door
from tests.integration.cqs.door import BODY_BYTES_MAX, FORM, HttpDoor, Reply, listen_on_free_port
from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, Rig, setting
from tests.protocol.support import botocore_model

OWNER = replace(door.OWNER, account=ACCOUNT)
STRANGER = replace(door.STRANGER, account=OTHER)
VERSION = "2010-03-31"
NAMESPACE = "http://sns.amazonaws.com/doc/2010-03-31/"


class Refusal(NamedTuple):
    """An error on the wire. Its Type is Sender."""

    status: int
    code: str
    text: str


def invalid(what: str) -> Refusal:
    return Refusal(400, "InvalidParameter", f"Invalid parameter: {what}")


def missing(name: str) -> Refusal:
    return invalid(f"{name} Reason: no value for required parameter")


def null(path: str) -> Refusal:
    return _validation(f"Value null at '{path}' failed to satisfy constraint: Member must not be null")


def out_of_length(text: str, path: str, constraint: str) -> Refusal:
    return _validation(f"Value '{text}' at '{path}' failed to satisfy constraint: Member must have length {constraint}")


def bad_attribute(text: str) -> Refusal:
    return Refusal(400, "ParameterValueInvalid", text)


def denied(action: str, resource: str, account: str = OTHER) -> Refusal:
    return Refusal(
        403,
        "AuthorizationError",
        f"User: arn:aws:iam::{account}:root is not authorized to perform: SNS:{action} on resource: {resource} "
        f"because no resource-based policy allows the SNS:{action} action",
    )


BAD = {"a": {"DataType": "Bad", "StringValue": "v"}}
BAD_TYPE = bad_attribute(
    "The message attribute 'a' has an invalid message attribute type, the set of supported type prefixes is Binary, "
    "Number, and String."
)
NO_TOPIC = Refusal(404, "NotFound", "Topic does not exist")


def _validation(text: str) -> Refusal:
    return Refusal(400, "ValidationError", f"1 validation error detected: {text}")


class SnsDoor(HttpDoor):
    """Calls as the topics' owner unless told otherwise."""

    def __init__(self, rig: Rig, front: FrontDoor, port: int) -> None:
        super().__init__(front, rig.clock, port)
        self.rig = rig
        self._model = botocore_model("sns")
        self._serializer = create_serializer("query", include_validation=False)
        self._parser = create_parser("query")

    async def __call__(self, action: str, key: AccessKey = OWNER, /, **members: Any) -> dict[str, Any]:
        """The result of a call that must succeed, as botocore returns it."""
        reply = await self.reply(action, key, **members)
        assert reply.status == 200, reply.body
        response = {"status_code": reply.status, "headers": reply.headers, "body": reply.body}
        shape: Any = self._model.operation_model(action).output_shape  # an operation without output has None
        answer: dict[str, Any] = self._parser.parse(response, shape)
        return {name: member for name, member in answer.items() if name != "ResponseMetadata"}

    async def reply(self, action: str, key: AccessKey = OWNER, /, **members: Any) -> Reply:
        """The raw response to a call."""
        written = self._serializer.serialize_to_request(members, self._model.operation_model(action))
        return await self.form(written["body"], key=key)

    async def form(self, parameters: Mapping[str, object], *, key: AccessKey = OWNER) -> Reply:
        """Send a form with these parameters. `Version` has a default."""
        body = urlencode({"Version": VERSION, **parameters}).encode()
        return await self.signed("POST", "/", {"content-type": FORM}, body, key=key, service="sns", region=REGION)

    async def refuses(self, refusal: Refusal, action: str, key: AccessKey = OWNER, /, **members: Any) -> None:
        """Make a call that must fail with exactly this error."""
        assert refused(await self.reply(action, key, **members)) == refusal

    async def topic(self, name: str = "t", **attributes: str) -> str:
        arn: str = (await self("CreateTopic", Name=name, Attributes=attributes))["TopicArn"]
        return arn

    async def set(self, arn: str, name: str, text: str) -> None:
        """Set an attribute of a topic or a subscription."""
        action, members = setting(arn, name, text)
        await self(action, **members)

    async def refuses_set(self, refusal: Refusal, arn: str, name: str, text: str) -> None:
        action, members = setting(arn, name, text)
        await self.refuses(refusal, action, **members)

    async def attributes(self, topic: str) -> dict[str, str]:
        attributes: dict[str, str] = (await self("GetTopicAttributes", TopicArn=topic))["Attributes"]
        return attributes


def refused(reply: Reply) -> Refusal:
    status, code, side, text = reply.query_fault
    assert side == "Sender"
    return Refusal(status, code, text)


@asynccontextmanager
async def open_sns_door(rig: Rig) -> AsyncIterator[SnsDoor]:
    """The HTTP interface of this notification service on a free port."""
    front = FrontDoor(
        {
            "sqs": Service(model=load_service("sqs"), operations={}),
            "sns": Service(model=load_service("sns"), operations=operations(rig.service), anonymous=ANONYMOUS),
        },
        Authenticator(KeyRing([OWNER, STRANGER]), rig.clock, enforced=True, region=REGION, account_id=ACCOUNT),
        public_url="",
        body_bytes_max=BODY_BYTES_MAX,
    )
    async with listen_on_free_port(front) as port:
        yield SnsDoor(rig, front, port)
