"""The queue service as SDKs see it: botocore writes the requests and reads the responses."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

from botocore.parsers import create_parser
from botocore.serialize import create_serializer

from tests.integration.cqs.door import Door
from tests.protocol.support import botocore_model, query_model

Protocol = Literal["json", "query"]

CORAL = "com.amazon.coral.service#"
SQS = "com.amazonaws.sqs#"


class Refusal(NamedTuple):
    """An error on the wire. The Query protocol has no shape; the text is the same in both protocols."""

    status: int
    code: str
    shape: str
    text: str


def invalid_value(text: str) -> Refusal:
    return Refusal(400, "InvalidParameterValue", CORAL + "InvalidParameterValueException", text)


def invalid(name: str, value: object, reason: str) -> Refusal:
    return invalid_value(f"Value {value} for parameter {name} is invalid. Reason: {reason}")


def missing(name: str) -> Refusal:
    text = f"The request must contain the parameter {name}."
    return Refusal(400, "MissingParameter", CORAL + "MissingRequiredParameterException", text)


def legacy(code: str, text: str, status: int = 400) -> Refusal:
    """Codes that have a prefix in the Query protocol."""
    return Refusal(status, f"AWS.SimpleQueueService.{code}", SQS + code, text)


def modelled(code: str, text: str, status: int = 400) -> Refusal:
    return Refusal(status, code, SQS + code, text)


class Wire:
    """One protocol, spoken to a service's HTTP interface."""

    def __init__(self, door: Door, protocol: Protocol) -> None:
        self.protocol = protocol
        self._door = door
        self._model = botocore_model("sqs") if protocol == "json" else query_model("sqs")
        self._serializer = create_serializer(protocol, include_validation=False)
        self._parser = create_parser(protocol)

    async def __call__(self, action: str, **members: Any) -> dict[str, Any]:
        """The response to a call that must succeed."""
        answer = await self._answer(action, members)
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200, answer
        return {name: member for name, member in answer.items() if name != "ResponseMetadata"}

    async def send(self, url: str, body: str = "hello", **members: Any) -> dict[str, Any]:
        return await self("SendMessage", QueueUrl=url, MessageBody=body, **members)

    async def receive(self, url: str, **members: Any) -> list[dict[str, Any]]:
        """Up to ten messages unless told otherwise."""
        received = await self("ReceiveMessage", QueueUrl=url, **{"MaxNumberOfMessages": 10, **members})
        messages: list[dict[str, Any]] = received.get("Messages", [])
        return messages

    async def refuses(self, refusal: Refusal, action: str, **members: Any) -> None:
        """Make a call that must fail with exactly this error."""
        answer = await self._answer(action, members)
        error = answer["Error"]
        assert error["Type"] == "Sender"
        seen = Refusal(answer["ResponseMetadata"]["HTTPStatusCode"], error["Code"], answer["shape"], error["Message"])
        assert seen == (refusal if self.protocol == "json" else refusal._replace(shape=""))

    async def _answer(self, action: str, members: dict[str, Any]) -> dict[str, Any]:
        operation = self._model.operation_model(action)
        written = self._serializer.serialize_to_request(members, operation)
        body = written["body"] if self.protocol == "json" else urlencode(written["body"]).encode()
        reply = await self._door.signed("POST", "/", written["headers"], body)
        response = {"status_code": reply.status, "headers": reply.headers, "body": reply.body}
        shape: Any = operation.output_shape  # an operation without output has None
        answer: dict[str, Any] = self._parser.parse(response, shape)
        if reply.status != 200:
            answer["shape"] = ""
            if self.protocol == "json":
                assert reply.headers["x-amzn-query-error"] == f"{answer['Error']['Code']};Sender"
                answer["shape"] = json.loads(reply.body)["__type"]
        return answer


class Wires:
    """Both protocols. A call that is refused changes nothing: one service shows both refusals."""

    def __init__(self, door: Door) -> None:
        self._both = [Wire(door, "json"), Wire(door, "query")]

    async def refuses(self, refusal: Refusal, action: str, **members: Any) -> None:
        for wire in self._both:
            await wire.refuses(refusal, action, **members)
