"""SNS as bytes on a connection: requests, signatures, and the XML of responses."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urlencode

import pytest

from cns_common.aws.auth.accounts import AccessKey
from tests.integration.cqs.door import FORM
from tests.integration.sns.cns_support import ACCOUNT, REGION
from tests.integration.sns.sns_door import NAMESPACE, OWNER, VERSION, SnsDoor, refused
from tests.marks import case

spec = pytest.mark.spec
FRAME = f'xmlns="{NAMESPACE}"'
MINUTE_MS = 60_000


def result_of(body: bytes, operation: str) -> str:
    """The result element of a response. Also checks its metadata."""
    text = body.decode()
    opening = f"<{operation}Response {FRAME}>"
    metadata, closing = "<ResponseMetadata><RequestId>", f"</RequestId></ResponseMetadata></{operation}Response>"
    assert text.startswith(opening) and text.endswith(closing)
    return text.removeprefix(opening).partition(metadata)[0]


# -- requests ---------------------------------------------------------------------------------------------------------


@spec("sns.success", "sns.request-id", "sns.shape", "sns.version")
@pytest.mark.parametrize("method", [case("sns.post", "POST"), case("sns.get", "GET")])
async def test_a_call(sns: SnsDoor, method: str) -> None:
    reply = await sns.query("CreateTopic", {"Name": "t"}, method=method, version=VERSION, service="sns", region=REGION)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/xml")
    arn = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"
    assert result_of(reply.body, "CreateTopic") == f"<CreateTopicResult><TopicArn>{arn}</TopicArn></CreateTopicResult>"
    (request_id,) = reply.texts("ResponseMetadata/RequestId")
    assert reply.headers["x-amzn-requestid"] == request_id == str(uuid.UUID(request_id))


@spec("sns.form-and-query")
async def test_parameters_may_be_in_both_places(sns: SnsDoor) -> None:
    form = urlencode({"Name": "t", "Version": VERSION}).encode()
    reply = await sns.signed(
        "POST", "/", {"content-type": FORM}, form, "Action=CreateTopic", service="sns", region=REGION
    )
    assert reply.texts("CreateTopicResult/TopicArn") == [f"arn:aws:sns:{REGION}:{ACCOUNT}:t"]


@spec("sns.query-only")
async def test_sns_has_no_json(sns: SnsDoor) -> None:
    fields = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "AmazonSNS.ListTopics"}
    reply = await sns.signed("POST", "/", fields, b"{}", service="sns", region=REGION)
    assert (reply.status, reply.json()["__type"]) == (400, "com.amazon.coral.service#UnknownOperationException")


@pytest.mark.parametrize(
    "action",
    [
        case("sns.unknown-action", "Nonsense"),
        case("sns.unknown-action", "SendMessage"),
        case("sns.missing-action", ""),
    ],
)
async def test_unknown_actions(sns: SnsDoor, action: str) -> None:
    reply = await sns.form({"Action": action} if action else {})
    missing = "The action is not valid for this endpoint."
    text = f"The action {action} is not valid for this endpoint." if action else missing
    assert refused(reply) == (400, "InvalidAction", text)


# -- answers ----------------------------------------------------------------------------------------------------------


@spec("sns.no-result")
async def test_answers_without_a_result(sns: SnsDoor, topic: str) -> None:
    subscribed = await sns("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:{ACCOUNT}:q")
    subscription = {"SubscriptionArn": subscribed["SubscriptionArn"]}
    credential = {"PlatformCredential": "secret"}
    created = await sns("CreatePlatformApplication", Name="app", Platform="GCM", Attributes=credential)
    application = {"PlatformApplicationArn": created["PlatformApplicationArn"]}
    endpoint = await sns("CreatePlatformEndpoint", **application, Token="token")
    calls: dict[str, dict[str, Any]] = {
        "SetTopicAttributes": {"TopicArn": topic, "AttributeName": "DisplayName", "AttributeValue": "d"},
        "AddPermission": {"TopicArn": topic, "Label": "l", "AWSAccountId": [ACCOUNT], "ActionName": ["Publish"]},
        "RemovePermission": {"TopicArn": topic, "Label": "l"},
        "SetSubscriptionAttributes": {**subscription, "AttributeName": "RawMessageDelivery", "AttributeValue": "true"},
        "Unsubscribe": subscription,
        "DeleteTopic": {"TopicArn": topic},
        "SetEndpointAttributes": {**endpoint, "Attributes": {"CustomUserData": "d"}},
        "DeleteEndpoint": endpoint,
        "SetPlatformApplicationAttributes": {**application, "Attributes": credential},
        "DeletePlatformApplication": application,
    }
    for action, members in calls.items():
        reply = await sns.reply(action, **members)
        assert (reply.status, result_of(reply.body, action)) == (200, ""), action


@spec("sns.empty-result")
async def test_answers_with_an_empty_result(sns: SnsDoor, topic: str) -> None:
    tagged = await sns.reply("TagResource", ResourceArn=topic, Tags=[{"Key": "k", "Value": "v"}])
    assert result_of(tagged.body, "TagResource") == "<TagResourceResult/>"
    untagged = await sns.reply("UntagResource", ResourceArn=topic, TagKeys=["k"])
    assert result_of(untagged.body, "UntagResource") == "<UntagResourceResult/>"


@spec("sns.error-shape", "sns.no-detail", "sns.type-sender", "sns.request-id")
async def test_an_error(sns: SnsDoor) -> None:
    reply = await sns.reply("DeleteTopic", TopicArn="a<b")
    request_id = reply.headers["x-amzn-requestid"]
    assert (reply.status, reply.headers["content-type"]) == (400, "text/xml")
    assert reply.body.decode() == (
        f"<ErrorResponse {FRAME}><Error><Type>Sender</Type><Code>InvalidParameter</Code>"
        "<Message>Invalid parameter: TopicArn Reason: An ARN must have at least 6 elements, not 1</Message></Error>"
        f"<RequestId>{request_id}</RequestId></ErrorResponse>"
    )


# -- signatures -------------------------------------------------------------------------------------------------------


@spec("sns.unsigned-refused")
@pytest.mark.parametrize("action", ["ListTopics", "CreateTopic", "Publish", "Subscribe", "GetSubscriptionAttributes"])
async def test_unsigned_calls_are_refused(sns: SnsDoor, action: str) -> None:
    reply = await sns.send("GET", "/", query=urlencode({"Action": action, "Version": VERSION}))
    assert refused(reply) == (403, "MissingAuthenticationToken", "Request is missing Authentication Token")


@spec("sns.unsigned-allowed")
async def test_a_token_or_a_link_needs_no_signature(sns: SnsDoor, topic: str) -> None:
    arn, token = await sns.rig.pending(topic, "https://example.com/hook")
    confirmed = await sns.send("GET", "/", query=f"Action=ConfirmSubscription&TopicArn={topic}&Token={token}")
    assert (confirmed.status, confirmed.texts("ConfirmSubscriptionResult/SubscriptionArn")) == (200, [arn])
    removed = await sns.send("GET", "/", query=f"Action=Unsubscribe&SubscriptionArn={arn}")
    assert (removed.status, result_of(removed.body, "Unsubscribe")) == (200, "")


@spec("sns.unknown-key")
async def test_an_unknown_key(sns: SnsDoor) -> None:
    reply = await sns.form({"Action": "ListTopics"}, key=AccessKey(ACCOUNT, "AKIANOBODYNOBODYNOBO", "secret", 0))
    text = "The security token included in the request is invalid."
    assert refused(reply) == (403, "InvalidClientTokenId", text)


@spec("sns.bad-signature")
async def test_a_wrong_signature(sns: SnsDoor) -> None:
    reply = await sns.form({"Action": "ListTopics"}, key=AccessKey(ACCOUNT, OWNER.key_id, "another", 0))
    status, code, text = refused(reply)
    assert (status, code) == (403, "SignatureDoesNotMatch")
    assert text.startswith("The request signature we calculated does not match the signature you provided.")


@spec("sns.clock-skew")
@pytest.mark.parametrize(
    ("minutes", "beginning"), [(-16, "Signature expired: "), (16, "Signature not yet current: "), (-14, ""), (14, "")]
)
async def test_clocks_that_differ(sns: SnsDoor, minutes: int, beginning: str) -> None:
    at_ms = sns.clock.wall_ms() + minutes * MINUTE_MS
    reply = await sns.query("ListTopics", version=VERSION, service="sns", region=REGION, at_ms=at_ms)
    if not beginning:
        assert reply.status == 200
        return
    status, code, text = refused(reply)
    assert (status, code) == (403, "SignatureDoesNotMatch")
    assert text.startswith(beginning) and "15 min.)" in text


@spec("sns.wrong-service")
async def test_a_signature_for_another_service(sns: SnsDoor) -> None:
    reply = await sns.query("ListTopics", version=VERSION, service="sqs", region=REGION)
    text = "Credential should be scoped to correct service: 'sns'. "
    assert refused(reply) == (403, "SignatureDoesNotMatch", text)
