"""The requests of the REST API as values: both clients send the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from cns.client import values

T = TypeVar("T")
MessageAttributes = Mapping[str, Mapping[str, str]]
"""By name: `{"dataType": …, "stringValue": …}`, or `binaryValue` in base64."""
PREFIX = "/api/v1"
DEFAULT_LIFE_S = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """An access key (`key_id` and `secret`), a bearer `token`, or the `query` of a signed URL."""

    key_id: str = ""
    secret: str = ""
    token: str = ""
    query: str = ""

    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def basic(self) -> tuple[str, str] | None:
        return (self.key_id, self.secret) if self.key_id and not self.token else None


class ApiError(Exception):
    """A problem that the service answered with (RFC 9457). `code` is stable, such as `QueueDoesNotExist`."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class ApiRequest(Generic[T]):
    """A request, and the type of its answer."""

    method: str
    path: str
    answer: type[T]
    params: Mapping[str, str | int] | None = None
    body: Mapping[str, Any] | None = None

    def read(self, response: httpx.Response) -> T:
        """The answer. Raises ApiError."""
        content = _checked(response).content
        try:
            return msgspec.json.decode(content, type=self.answer)
        except msgspec.MsgspecError:
            raise ApiError(response.status_code, "HttpError", "What answers is no CNS: it cannot be read.") from None

    def read_optional(self, response: httpx.Response) -> T | None:
        """The answer, or None for 204."""
        checked = _checked(response)
        return None if checked.status_code == httpx.codes.NO_CONTENT else self.read(checked)


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        problem = msgspec.json.decode(response.content)
        raise ApiError(response.status_code, str(problem["code"]), str(problem["detail"]))
    except (msgspec.MsgspecError, KeyError, TypeError):
        raise ApiError(response.status_code, "HttpError", response.text[:1_000]) from None


class Requests:
    """Makes the requests of one account."""

    def __init__(self, account: str) -> None:
        self._account = f"/accounts/{account}"

    # -- queues -------------------------------------------------------------------------------------------------------

    def _queue(self, queue: str, rest: str = "") -> str:
        return f"{self._account}/queues/{quote(queue, safe='')}{rest}"

    def list_queues(self, prefix: str, after: str, *, definitions: bool) -> ApiRequest[values.QueueNames]:
        params = given(prefix=prefix, after=after, definitions="true" if definitions else "")
        return ApiRequest("GET", f"{self._account}/queues", values.QueueNames, params)

    def create_queue(
        self, name: str, attributes: Mapping[str, str], tags: Mapping[str, str]
    ) -> ApiRequest[values.QueueDefinition]:
        body = {"name": name, "attributes": attributes, "tags": tags}
        return ApiRequest("POST", f"{self._account}/queues", values.QueueDefinition, None, body)

    def show_queue(self, queue: str) -> ApiRequest[values.QueueDefinition]:
        return ApiRequest("GET", self._queue(queue), values.QueueDefinition)

    def change_queue(self, queue: str, attributes: Mapping[str, str]) -> ApiRequest[values.QueueDefinition]:
        return ApiRequest("PATCH", self._queue(queue), values.QueueDefinition, None, {"attributes": attributes})

    def delete_queue(self, queue: str) -> ApiRequest[None]:
        return ApiRequest("DELETE", self._queue(queue), type(None))

    def purge_queue(self, queue: str) -> ApiRequest[None]:
        return ApiRequest("DELETE", self._queue(queue, "/messages/all"), type(None))

    def queue_statistics(self, queue: str, *, by_hour: bool) -> ApiRequest[values.Statistics]:
        params = given(byHour="true" if by_hour else None)
        return ApiRequest("GET", self._queue(queue, "/statistics"), values.Statistics, params)

    # -- messages -----------------------------------------------------------------------------------------------------

    def put_message(
        self,
        queue: str,
        text: str,
        attributes: MessageAttributes,
        delay_seconds: int | None,
        group_id: str | None,
        deduplication_id: str | None,
    ) -> ApiRequest[values.SentMessage]:
        body = given(delaySeconds=delay_seconds, groupId=group_id, deduplicationId=deduplication_id)
        body["attributes"] = attributes
        return ApiRequest("POST", self._queue(queue, "/messages"), values.SentMessage, None, {"body": text, **body})

    def next_message(
        self, queue: str, lease_seconds: int | None, wait_seconds: int | None
    ) -> ApiRequest[values.ReceivedMessage]:
        params = given(leaseSeconds=lease_seconds, waitSeconds=wait_seconds)
        return ApiRequest("GET", self._queue(queue, "/messages/next"), values.ReceivedMessage, params)

    def update_message(
        self, queue: str, pop_receipt: str, text: str | None, lease_seconds: int | None
    ) -> ApiRequest[None]:
        body = given(leaseSeconds=lease_seconds) | ({} if text is None else {"body": text})
        params = {"popReceipt": pop_receipt}
        return ApiRequest("PUT", self._queue(queue, "/messages"), type(None), params, body)

    def acknowledge_message(self, queue: str, pop_receipt: str) -> ApiRequest[None]:
        return ApiRequest("DELETE", self._queue(queue, "/messages"), type(None), {"popReceipt": pop_receipt})

    def browse_messages(self, queue: str, after: str, limit: int) -> ApiRequest[values.BrowsedMessages]:
        params = given(after=after, limit=limit)
        return ApiRequest("GET", self._queue(queue, "/messages"), values.BrowsedMessages, params)

    # -- topics -------------------------------------------------------------------------------------------------------

    def _topic(self, topic: str, rest: str = "") -> str:
        return f"{self._account}/topics/{quote(topic, safe='')}{rest}"

    def list_topics(self, after: str) -> ApiRequest[values.Topics]:
        return ApiRequest("GET", f"{self._account}/topics", values.Topics, given(after=after))

    def create_topic(self, name: str, attributes: Mapping[str, str]) -> ApiRequest[values.TopicDefinition]:
        body = {"name": name, "attributes": attributes}
        return ApiRequest("POST", f"{self._account}/topics", values.TopicDefinition, None, body)

    def show_topic(self, topic: str) -> ApiRequest[values.TopicDefinition]:
        return ApiRequest("GET", self._topic(topic), values.TopicDefinition)

    def change_topic(self, topic: str, attributes: Mapping[str, str]) -> ApiRequest[values.TopicDefinition]:
        return ApiRequest("PATCH", self._topic(topic), values.TopicDefinition, None, {"attributes": attributes})

    def delete_topic(self, topic: str) -> ApiRequest[None]:
        return ApiRequest("DELETE", self._topic(topic), type(None))

    def publish_message(
        self,
        topic: str,
        message: str,
        attributes: MessageAttributes,
        subject: str | None,
        group_id: str | None,
        deduplication_id: str | None,
    ) -> ApiRequest[values.PublishedMessage]:
        body = given(subject=subject, groupId=group_id, deduplicationId=deduplication_id)
        body |= {"message": message, "attributes": attributes}
        return ApiRequest("POST", self._topic(topic, "/messages"), values.PublishedMessage, None, body)

    def subscribe(
        self, topic: str, protocol: str, endpoint: str, attributes: Mapping[str, str]
    ) -> ApiRequest[values.SubscriptionArn]:
        body = {"protocol": protocol, "endpoint": endpoint, "attributes": attributes}
        return ApiRequest("POST", self._topic(topic, "/subscriptions"), values.SubscriptionArn, None, body)

    def list_subscriptions(self, after: str) -> ApiRequest[values.Subscriptions]:
        return ApiRequest("GET", f"{self._account}/subscriptions", values.Subscriptions, given(after=after))

    def list_topic_subscriptions(self, topic: str, after: str) -> ApiRequest[values.Subscriptions]:
        return ApiRequest("GET", self._topic(topic, "/subscriptions"), values.Subscriptions, given(after=after))

    # -- permissions --------------------------------------------------------------------------------------------------

    def create_permission(self, levels: Sequence[str], queue: str, life_seconds: int) -> ApiRequest[values.Permission]:
        body = given(levels=list(levels), queue=queue or None, lifeSeconds=life_seconds)
        return ApiRequest("POST", f"{self._account}/permissions", values.Permission, None, body)


def given(**members: Any) -> dict[str, Any]:
    """The members that are neither None nor an empty text."""
    return {name: value for name, value in members.items() if value is not None and value != ""}
