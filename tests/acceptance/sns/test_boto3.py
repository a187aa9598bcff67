"""SNS through boto3: what queues and web endpoints get, as SDK users see it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cns_pytest.http import fetch
from lab.harness.endpoints import Endpoint
from lab.harness.service import Service
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all, receive_one, signature_is_good

ENVELOPE = ["Type", "MessageId", "TopicArn", "Subject", "Message", "Timestamp", "SignatureVersion", "Signature"]
LINKS = ["SigningCertURL", "UnsubscribeURL"]
CONFIRMATION = ["Type", "MessageId", "Token", "TopicArn", "Message", "SubscribeURL", "Timestamp"]
HEADERS = {
    "x-amz-sns-message-type",
    "x-amz-sns-message-id",
    "x-amz-sns-topic-arn",
    "x-amz-sns-subscription-arn",
    "content-type",
    "user-agent",
    "accept-encoding",
    "host",
    "content-length",
}
COLOUR = {"DataType": "String", "StringValue": "blue"}


# -- queues -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "sns-envelope.notification",
    "sns-envelope.unsubscribe-url",
    "sns-envelope.attribute-form",
    "sns-raw.not-raw",
    "sns-raw.sender",
)
@pytest.mark.slice
def test_a_queue_gets_the_envelope(service: Service, sqs: Any, topic: Topic) -> None:
    queue = queue_for(sqs, topic.arn)
    subscription = topic.subscribe("sqs", arn_of(sqs, queue))
    text = 'grüße "<&>" 🎉\n'
    published = topic.publish(text, Subject="Hello", MessageAttributes={"colour": COLOUR})
    message = receive_one(sqs, queue)
    envelope = json.loads(message["Body"])
    assert list(envelope) == [*ENVELOPE, *LINKS, "MessageAttributes"]
    assert envelope["Type"] == "Notification"
    assert (envelope["MessageId"], envelope["TopicArn"]) == (published, topic.arn)
    assert (envelope["Subject"], envelope["Message"]) == ("Hello", text)
    assert envelope["MessageAttributes"] == {"colour": {"Type": "String", "Value": "blue"}}
    assert envelope["UnsubscribeURL"] == f"{service.url}/?Action=Unsubscribe&SubscriptionArn={subscription}"
    assert "MessageAttributes" not in message, "attributes are in the envelope only"
    assert message["Attributes"]["SenderId"].startswith("AROA")


@pytest.mark.spec(
    "sns-signature.v1",
    "sns-signature.v2",
    "sns-signature.certificate-url",
    "sns-signature.certificate-open",
)
@pytest.mark.parametrize("version", ["1", "2"])
def test_signatures_verify_with_the_certificate_served(service: Service, sqs: Any, topic: Topic, version: str) -> None:
    topic.set("SignatureVersion", version)
    queue = queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, queue))
    topic.publish("signed", Subject="s")
    envelope = json.loads(receive_one(sqs, queue)["Body"])
    assert envelope["SignatureVersion"] == version
    assert envelope["SigningCertURL"].startswith(f"{service.url}/SimpleNotificationService-")
    assert signature_is_good(envelope)
    assert not signature_is_good({**envelope, "Message": "forged"})


@pytest.mark.spec("sns-raw.queue-body", "sns-raw.queue-attributes", "sns-raw.subject-lost", "sns-raw.md5")
def test_raw_delivery_to_a_queue_keeps_the_attributes(sqs: Any, topic: Topic) -> None:
    queue = queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery="true")
    attributes = {
        "colour": COLOUR,
        "size": {"DataType": "Number.int", "StringValue": "7"},
        "tags": {"DataType": "String.Array", "StringValue": '["a", 1, null]'},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\0\xff"},
    }
    topic.publish("raw", Subject="lost", MessageAttributes=attributes)
    message = receive_one(sqs, queue)
    assert message["Body"] == "raw"
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"]


@pytest.mark.spec("sns-answer.queue-denied", "sns-dead-letter.per-subscription", "sns-raw.principal")
def test_a_queue_that_does_not_allow_the_topic_gets_nothing(service: Service, sqs: Any, topic: Topic) -> None:
    closed = queue_for(sqs)
    dead = queue_for(sqs, topic.arn)
    subscription = topic.subscribe("sqs", arn_of(sqs, closed), **topic.dead_letters_to(arn_of(sqs, dead)))
    published = topic.publish("unwanted")
    envelope = json.loads(receive_one(sqs, dead)["Body"])
    assert envelope["MessageId"] == published
    assert subscription in envelope["UnsubscribeURL"]
    assert receive_all(sqs, closed) == []


def test_a_queue_of_another_account_is_asked_first(
    service: Service, sqs: Any, topic: Topic, stranger: dict[str, str]
) -> None:
    theirs = service.client("sqs", **stranger)
    queue = queue_for(theirs, topic.arn)
    assert topic.request_subscription("sqs", arn_of(theirs, queue)) == "pending confirmation"
    request = json.loads(receive_one(theirs, queue)["Body"])
    assert request["Type"] == "SubscriptionConfirmation"
    assert fetch(request["SubscribeURL"])[0] == 200
    published = topic.publish("for you")
    assert json.loads(receive_one(theirs, queue)["Body"])["MessageId"] == published


# -- HTTP -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "sns-envelope.confirmation",
    "sns-envelope.notification",
    "sns-http.no-subscription-arn",
    "sns-http.type",
    "sns-http.message-id",
    "sns-http.subscription-arn",
    "sns-http.content-type",
    "sns-http.user-agent",
    "sns-http.nothing-else",
)
@pytest.mark.slice
def test_an_http_endpoint_confirms_and_gets_signed_notifications(topic: Topic, endpoint: Endpoint) -> None:
    assert topic.request_subscription("http", endpoint.url) == "pending confirmation"
    (request,) = endpoint.wait(confirmed=1)["messages"]
    assert request["type"] == "SubscriptionConfirmation"
    assert list(json.loads(request["body"])) == [*CONFIRMATION, "SignatureVersion", "Signature", "SigningCertURL"]
    assert signature_is_good(json.loads(request["body"]))
    assert "x-amz-sns-subscription-arn" not in request["headers"]
    (subscription,) = topic.subscriptions()
    published = topic.publish("hello", Subject="s", MessageAttributes={"colour": COLOUR})
    came = endpoint.wait(received=1, good=1)["messages"][-1]
    assert set(came["headers"]) - {"connection"} == HEADERS
    assert came["headers"]["content-type"] == "text/plain; charset=UTF-8"
    assert came["headers"]["user-agent"] == "Amazon Simple Notification Service Agent"
    assert (came["type"], came["message_id"]) == ("Notification", published)
    assert came["subscription_arn"] == subscription["SubscriptionArn"]
    assert list(json.loads(came["body"])) == [*ENVELOPE, *LINKS, "MessageAttributes"]


@pytest.mark.spec(
    "sns-raw.http",
    "sns-http.raw-header",
    "sns-http.content-type-policy",
    "sns-policy-http.content-types-raw",
)
def test_raw_delivery_to_an_http_endpoint(topic: Topic, endpoint: Endpoint) -> None:
    policy = json.dumps({"requestPolicy": {"headerContentType": "application/json"}})
    topic.subscribe("http", endpoint.url, RawMessageDelivery="true", DeliveryPolicy=policy)
    topic.publish('{"raw": true}', Subject="lost", MessageAttributes={"colour": COLOUR})
    came = endpoint.wait(received=1, unsigned=1)["messages"][-1]
    assert came["body"] == '{"raw": true}'
    assert came["headers"]["x-amz-sns-rawdelivery"] == "true"
    assert came["headers"]["content-type"].startswith("application/json")
    assert "colour" not in json.dumps(came["headers"])


def test_pending_subscriptions_get_nothing(sqs: Any, sns: Any, topic: Topic, endpoint: Endpoint) -> None:
    queue = queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, queue))
    endpoint.confirm("never")
    topic.request_subscription("http", endpoint.url)
    endpoint.wait(confirmations=1)
    topic.publish("only to the queue")
    receive_one(sqs, queue)
    assert endpoint.look()["received"] == 0
    assert "PendingConfirmation" in {found["SubscriptionArn"] for found in topic.subscriptions()}
    topic.request_subscription("http", endpoint.url)
    tokens = [json.loads(request["body"])["Token"] for request in endpoint.wait(confirmations=2)["messages"]]
    assert tokens[0] != tokens[1]
    arns = {sns.confirm_subscription(TopicArn=topic.arn, Token=token)["SubscriptionArn"] for token in tokens}
    assert len(arns) == 1
    topic.publish("to both")
    endpoint.wait(received=1)


def test_unsubscribing_by_link_can_be_taken_back(topic: Topic, endpoint: Endpoint) -> None:
    subscription = topic.subscribe("http", endpoint.url)
    topic.publish("one")
    link = json.loads(endpoint.wait(received=1)["messages"][-1]["body"])["UnsubscribeURL"]
    status, answer = fetch(link)
    assert (status, b"UnsubscribeResponse" in answer) == (200, True)
    farewell = endpoint.wait(confirmations=2)["messages"][-1]
    assert farewell["type"] == "UnsubscribeConfirmation"
    body = json.loads(farewell["body"])
    assert subscription in body["Message"]
    assert signature_is_good(body)
    topic.publish("nobody hears this")
    status, answer = fetch(body["SubscribeURL"])
    assert (status, subscription.encode() in answer) == (200, True)
    published = topic.publish("two")
    assert endpoint.wait(received=2)["messages"][-1]["message_id"] == published


@pytest.mark.parametrize("url", ["http://10.1.2.3/", "http://169.254.169.254/latest/meta-data", "http://[fd00::1]/"])
def test_private_addresses_are_refused(topic: Topic, url: str) -> None:
    with pytest.raises(ClientError) as caught:
        topic.request_subscription("http", url)
    assert caught.value.response["Error"]["Code"] == "AuthorizationError"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
