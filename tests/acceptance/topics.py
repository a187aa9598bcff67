"""Short forms for topics and the queues that they deliver to, and a signature check of our own."""

from __future__ import annotations

import base64
import itertools
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from cns_pytest.http import fetch
from lab.harness.waiting import wait_until

BURST = 50
_SIGNED = {
    "Notification": ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"],
    "SubscriptionConfirmation": ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"],
    "UnsubscribeConfirmation": ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"],
}
_DIGESTS: dict[str, hashes.HashAlgorithm] = {"1": hashes.SHA1(), "2": hashes.SHA256()}


@dataclass(frozen=True)
class Topic:
    sns: Any
    arn: str

    def publish(self, message: str, **more: Any) -> str:
        """Publish a message. Returns its id."""
        return str(self.sns.publish(TopicArn=self.arn, Message=message, **more)["MessageId"])

    def publish_until(self, condition: Callable[[], object], complaint: Callable[[], str]) -> int:
        """Publish bursts of messages until `condition` holds. Returns how many messages.

        Of several workers each gets its share of a burst; of single messages one worker may take all.
        """
        numbers = itertools.count()

        def holds_after_a_burst() -> bool:
            for number in itertools.islice(numbers, BURST):
                self.publish(str(number))
            return bool(condition())

        wait_until(holds_after_a_burst, complaint)
        return next(numbers)

    def subscribe(self, protocol: str, endpoint: str, **attributes: str) -> str:
        """Subscribe and wait for the confirmation. Returns the subscription's ARN."""
        arn = self._subscribe(protocol, endpoint, attributes, return_arn=True)
        wait_until(lambda: self._confirmed(arn), lambda: f"{arn} is not confirmed")
        return arn

    def request_subscription(self, protocol: str, endpoint: str, **attributes: str) -> str:
        """Subscribe without waiting. Returns the answer: an ARN, or `pending confirmation`."""
        return self._subscribe(protocol, endpoint, attributes, return_arn=False)

    def _subscribe(self, protocol: str, endpoint: str, attributes: dict[str, str], *, return_arn: bool) -> str:
        answer = self.sns.subscribe(
            TopicArn=self.arn,
            Protocol=protocol,
            Endpoint=endpoint,
            Attributes=attributes,
            ReturnSubscriptionArn=return_arn,
        )
        return str(answer["SubscriptionArn"])

    def subscriptions(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.sns.list_subscriptions_by_topic(TopicArn=self.arn)["Subscriptions"]
        return found

    def set(self, name: str, value: str) -> None:
        self.sns.set_topic_attributes(TopicArn=self.arn, AttributeName=name, AttributeValue=value)

    @staticmethod
    def dead_letters_to(queue_arn: str) -> dict[str, str]:
        """The RedrivePolicy attribute of a subscription."""
        return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": queue_arn})}

    def _confirmed(self, subscription: str) -> bool:
        attributes = self.sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]
        return bool(attributes["PendingConfirmation"] == "false")


def queue_for(sqs: Any, topic_arn: str = "", name: str = "", **attributes: str) -> str:
    """Create a queue, with a topic one that lets this topic send. Returns its URL."""
    if topic_arn:
        allow = {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": "*",
            "Condition": {"ArnEquals": {"aws:SourceArn": topic_arn}},
        }
        attributes["Policy"] = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
    created = sqs.create_queue(QueueName=name or f"q-{uuid.uuid4().hex[:12]}", Attributes=attributes)
    return str(created["QueueUrl"])


def arn_of(sqs: Any, queue: str) -> str:
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    return str(attributes["QueueArn"])


def receive_one(sqs: Any, queue: str) -> dict[str, Any]:
    (message,) = receive_all(sqs, queue, 1)
    return message


def receive_all(sqs: Any, queue: str, at_least: int = 0) -> list[dict[str, Any]]:
    """Receive and return the messages; with `at_least`, wait for that many."""
    received: list[dict[str, Any]] = []
    while True:
        wait_s = 20 if len(received) < at_least else 0
        answer = sqs.receive_message(
            QueueUrl=queue,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=wait_s,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        messages = answer.get("Messages", [])
        received += messages
        if not messages:
            assert len(received) >= at_least, f"only {len(received)} came"
            return received


def signature_is_good(message: dict[str, str], *, ca_file: Path | None = None) -> bool:
    """Whether the signature is good by the certificate at SigningCertURL."""
    names = [name for name in _SIGNED[message["Type"]] if name in message]
    text = "".join(f"{name}\n{message[name]}\n" for name in names).encode()
    signature = base64.b64decode(message["Signature"])
    try:
        key = _key_at(message["SigningCertURL"], ca_file)
        key.verify(signature, text, PKCS1v15(), _DIGESTS[message["SignatureVersion"]])
    except InvalidSignature:
        return False
    return True


@lru_cache
def _key_at(url: str, ca_file: Path | None) -> RSAPublicKey:
    status, pem = fetch(url, ca_file=ca_file)
    assert status == 200, url
    key = x509.load_pem_x509_certificate(pem).public_key()
    assert isinstance(key, RSAPublicKey)
    return key
