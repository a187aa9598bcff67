"""Signatures, judged by validators that we did not write: those of JavaScript, Python and Java."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from cryptography import x509

from cns_pytest.http import fetch
from lab.harness.endpoints import Endpoint
from lab.harness.ports import free_port
from lab.harness.running import Up, running
from lab.harness.service import REGION
from lab.harness.waiting import wait_until
from tests.acceptance.clients.validators import (
    ACCEPTED,
    IN_EVENT,
    KINDS,
    UNSUBSCRIBED,
    VALIDATORS,
    VERSIONS,
    Message,
    Origin,
    Validator,
    ask_java,
    host_in,
)
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all, signature_is_good
from tests.private_servers.certificates import make_certificates

REGIONS = boto3.Session().get_available_regions("sns")
SUBSCRIBED = "SubscriptionConfirmation"
PUBLISHED: dict[str, dict[str, Any]] = {
    "Notification": {"message": "plain"},
    "with a subject": {"message": '{"a": "text\\n"}\n', "Subject": "Subject: a 'quoted' one"},
    "with attributes": {
        "message": "with attributes",
        "MessageAttributes": {
            "colour": {"DataType": "String", "StringValue": "blue"},
            "bytes": {"DataType": "Binary", "BinaryValue": b"\0\xff"},
        },
    },
    "in other letters": {"message": 'grüße "<&>" 🎉\r\n\t雪 \u2028 end', "Subject": "näme 雪"},
    "in a queue": {"message": "to a queue", "Subject": "s"},
    IN_EVENT: {"message": "to a function"},
}
CHANGES: dict[str, tuple[str, Callable[[str], str]]] = {
    "Message": ("with a subject", lambda was: was + " "),
    "Subject": ("with a subject", lambda was: was.upper()),
    "MessageId": ("Notification", lambda was: was[::-1]),
    "Timestamp": ("Notification", lambda was: was.replace("20", "19", 1)),
    "TopicArn": ("in a queue", lambda was: was + "2"),
    "SignatureVersion": ("Notification", lambda was: "2" if was == "1" else "1"),
    "Token": (SUBSCRIBED, lambda was: was[::-1]),
    "SubscribeURL": (SUBSCRIBED, lambda was: was + "0"),
    "Type": (SUBSCRIBED, lambda was: UNSUBSCRIBED),
}
JUDGED = [(name, version) for name, each in VALIDATORS.items() for version in VERSIONS if each.knows(version)]
ONE_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----\n(?:[A-Za-z0-9+/=]{1,64}\n)+-----END CERTIFICATE-----\n")

SLICE = "sns-validator"
"""The validator that `make test` runs."""


@dataclass(frozen=True)
class Sent:
    """All that a service has sent, by kind and signature version."""

    origin: Origin
    messages: Mapping[tuple[str, str], Message]


@pytest.fixture(scope="module")
def sent_from(tmp_path_factory: pytest.TempPathFactory, receiver: str) -> Iterator[Mapping[str, Sent]]:
    """By a service of each public host that a validator asks for."""
    with ExitStack() as services, pytest.MonkeyPatch.context() as patched:
        sent = {}
        for host in ("localhost", host_in(REGION)):
            gateway = Endpoint(receiver)
            patched.setenv("CNS_GATEWAY_URL", gateway.url)
            directory = tmp_path_factory.mktemp("validated")
            ca_file = make_certificates(directory, host, *map(host_in, REGIONS))
            origin = Origin(host=host, port=free_port(), ca_file=ca_file)
            service = services.enter_context(_running(directory, origin))
            of_versions = [_messages(service, version, Endpoint(receiver), gateway) for version in VERSIONS]
            sent[host] = Sent(origin, {key: message for each in of_versions for key, message in each.items()})
        yield sent


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.slice if name == SLICE else ()) for name in VALIDATORS])
def validator(request: pytest.FixtureRequest) -> Validator:
    return VALIDATORS[request.param]


@pytest.fixture
def sent(validator: Validator, sent_from: Mapping[str, Sent]) -> Sent:
    return sent_from[validator.host]


# -- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "sns-signature.validators",
    "sns-signature.notification",
    "sns-signature.confirmation",
    "sns-signature.v1",
    "sns-signature.v2",
)
def test_what_is_sent_is_accepted(validator: Validator, sent: Sent) -> None:
    verdicts = dict(zip(sent.messages, validator.verdicts(sent.origin, [*sent.messages.values()]), strict=True))
    assert verdicts == {key: validator.beyond.get(key, ACCEPTED) for key in sent.messages}


@pytest.mark.spec("sns-signature.validators")
@pytest.mark.parametrize(("validator", "version"), JUDGED, indirect=["validator"])
def test_what_was_changed_is_refused(validator: Validator, sent: Sent, version: str) -> None:
    """A message is refused after each change alone, and with the signature of another message."""
    notification = sent.messages["Notification", version]
    wrong = {
        name: {**sent.messages[kind, version], name: change(sent.messages[kind, version][name])}
        for name, (kind, change) in CHANGES.items()
    }
    wrong["Signature"] = {**notification, "Signature": sent.messages["with attributes", version]["Signature"]}
    url = notification["SigningCertURL"]
    wrong["elsewhere"] = {**notification, "SigningCertURL": url.replace("://", "://not.")}
    wrong["insecure"] = {**notification, "SigningCertURL": url.replace("https:", "http:")}
    verdicts = dict(zip(wrong, validator.verdicts(sent.origin, [*wrong.values()]), strict=True))
    assert verdicts == {
        **dict.fromkeys(wrong, validator.forged),
        "SignatureVersion": validator.other_version,
        "elsewhere": validator.elsewhere,
        "insecure": validator.insecure,
    }


@pytest.mark.spec("sns-signature.not-signed")
def test_what_is_not_signed_may_be_changed(validator: Validator, sent: Sent) -> None:
    message = sent.messages["with attributes", "1"]
    changed = {**message, "MessageAttributes": {}, "UnsubscribeURL": message["UnsubscribeURL"] + "0"}
    assert validator.verdicts(sent.origin, [{**changed, "SequenceNumber": "1"}]) == [ACCEPTED]


@pytest.mark.spec("sns-signature.text", "sns-signature.confirmation")
def test_what_a_validator_cannot_judge_is_signed_as_aws_says(validator: Validator, sent: Sent) -> None:
    for key in validator.beyond:
        message = {name: value for name, value in sent.messages[key].items() if value is not None}
        url = message.get("SigningCertURL") or message["SigningCertUrl"]
        message["SigningCertURL"] = url.replace(sent.origin.host, "localhost")
        assert signature_is_good(message, ca_file=sent.origin.ca_file), key
        assert not signature_is_good({**message, "Message": "forged"}, ca_file=sent.origin.ca_file), key


@pytest.mark.slice
@pytest.mark.spec("sns-signature.url-names")
def test_where_the_certificate_is_has_one_name_in_envelopes_and_one_in_events(sent_from: Mapping[str, Sent]) -> None:
    for sent in sent_from.values():
        for (kind, _), message in sent.messages.items():
            names = {name for name in message if name.lower() == "signingcerturl"}
            assert names == {"SigningCertUrl" if kind == IN_EVENT else "SigningCertURL"}, kind


# -- the certificate --------------------------------------------------------------------------------------------------


@pytest.mark.spec("sns-signature.certificate-one", "sns-signature.certificate-open", "sns-signature.certificate-names")
def test_the_certificate_is_served_alone(sent_from: Mapping[str, Sent]) -> None:
    sent = sent_from["localhost"]
    (url,) = {message["SigningCertURL"] for (kind, _), message in sent.messages.items() if kind != IN_EVENT}
    status, served = fetch(url, ca_file=sent.origin.ca_file)
    assert status == 200
    assert ONE_PEM.fullmatch(served)
    names = x509.load_pem_x509_certificate(served).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert "sns.amazonaws.com" in names.value.get_values_for_type(x509.DNSName)


@pytest.mark.spec("sns-signature.certificate-names")
def test_the_certificate_is_that_of_every_region(sent_from: Mapping[str, Sent]) -> None:
    sent = sent_from[host_in(REGION)]
    message = sent.messages["Notification", "2"]
    there = [{**message, "SigningCertURL": message["SigningCertURL"].replace(REGION, region)} for region in REGIONS]
    verdicts = ask_java(sent.origin, [*zip(REGIONS, there, strict=True)])
    assert dict(zip(REGIONS, verdicts, strict=True)) == dict.fromkeys(REGIONS, ACCEPTED)


# -- sending ----------------------------------------------------------------------------------------------------------


def _running(directory: Path, origin: Origin) -> AbstractContextManager[Up]:
    tls = ("--tls-cert", str(directory / "server.pem"), "--tls-key", str(directory / "server.key"))
    here = f"https://localhost:{origin.port}"
    return running(
        directory / "data", *tls, "--public-url", origin.url, port=origin.port, url=here, ca_file=origin.ca_file
    )


def _messages(service: Up, version: str, endpoint: Endpoint, gateway: Endpoint) -> dict[tuple[str, str], Message]:
    """One of each kind, as a web endpoint, a queue and the gateway that takes functions' events got it."""
    sns, sqs = service.client("sns"), service.client("sqs")
    topic = Topic(sns, sns.create_topic(Name=f"t{version}", Attributes={"SignatureVersion": version})["TopicArn"])
    sns.subscribe(TopicArn=topic.arn, Protocol="http", Endpoint=f"{endpoint.url}?confirm=never&verify=off")
    subscribed = json.loads(endpoint.wait(confirmations=1)["messages"][0]["body"])
    subscription = sns.confirm_subscription(TopicArn=topic.arn, Token=subscribed["Token"])["SubscriptionArn"]
    queue = queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, queue))
    topic.subscribe("lambda", f"arn:aws:lambda:{REGION}:{topic.arn.split(':')[4]}:function:f{version}")
    ids = {kind: topic.publish(**more) for kind, more in PUBLISHED.items()}
    web = _by_id(record["body"] for record in endpoint.wait(received=len(ids))["messages"])
    queued = _by_id(message["Body"] for message in receive_all(sqs, queue, len(ids)))
    link = web[ids["Notification"]]["UnsubscribeURL"]
    assert fetch(service.url + link[link.index("/?") :], ca_file=service.ca_file)[0] == 200
    unsubscribed = json.loads(endpoint.wait(confirmations=2)["messages"][-1]["body"])
    assert subscription in unsubscribed["Message"]
    found = {kind: web[ids[kind]] for kind in ids}
    found |= {"in a queue": queued[ids["in a queue"]], IN_EVENT: _event(gateway, ids[IN_EVENT])}
    found |= {SUBSCRIBED: subscribed, UNSUBSCRIBED: unsubscribed}
    return {(kind, version): found[kind] for kind in KINDS}


def _by_id(bodies: Iterable[str]) -> dict[str, Message]:
    return {message["MessageId"]: message for message in map(json.loads, bodies)}


def _event(gateway: Endpoint, message_id: str) -> Message:
    """The event that a Lambda function gets for this message."""
    events: list[Message] = []

    def came() -> bool:
        documents = [json.loads(record["body"]) for record in gateway.look()["messages"]]
        bodies = [json.loads(document["body"]) for document in documents if document["message_id"] == message_id]
        events[:] = [body["Records"][0]["Sns"] for body in bodies]
        return bool(events)

    wait_until(came, lambda: f"no event tells of {message_id}")
    return events[0]
