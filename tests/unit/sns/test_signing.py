"""Signatures, checked with the cryptography package directly, and the certificate that clients' validators inspect."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from cns.delivery.envelope import (
    ConfirmationNotice,
    Envelope,
    MessageType,
    signed_confirmation,
    signed_envelope,
    verify_body,
)
from cns.delivery.signing import OPT_IN_REGIONS, Signer, certificate_name, new_identity, verify
from cns.notification import Notification
from cns.stores.contract import SigningIdentity

NOW_MS = 1_767_323_045_000  # 2026-01-02T03:04:05Z
BASE = "http://localhost:6059"
TOPIC = "arn:aws:sns:us-east-1:000000000000:t"
OPT_IN_SIGNERS = [f"sns-signing.{region}.amazonaws.com" for region in OPT_IN_REGIONS]


@pytest.fixture(scope="module")
def identity() -> SigningIdentity:
    return new_identity(NOW_MS)


@pytest.fixture(scope="module")
def other_identity() -> SigningIdentity:
    return new_identity(NOW_MS)


@pytest.fixture
def signer(identity: SigningIdentity) -> Signer:
    return Signer(identity)


def check_independently(body: dict[str, str], names: list[str], certificate_pem: bytes) -> None:
    """AWS's documented check, step by step, with nothing of ours in it."""
    text = "".join(f"{name}\n{body[name]}\n" for name in names)
    key = x509.load_pem_x509_certificate(certificate_pem).public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    algorithm = {"1": hashes.SHA1(), "2": hashes.SHA256()}[body["SignatureVersion"]]
    key.verify(b64decode(body["Signature"]), text.encode("utf-8"), padding.PKCS1v15(), algorithm)


def parsed(envelope: Envelope) -> dict[str, str]:
    body: dict[str, str] = json.loads(envelope.body(f"{BASE}/?Action=Unsubscribe&SubscriptionArn={TOPIC}:s"))
    return body


@pytest.mark.spec("sns-signature.text", "sns-signature.notification", "sns-signature.v1", "sns-signature.v2")
@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [None, "näme"])
def test_notifications_verify(signer: Signer, version: str, subject: str | None) -> None:
    notification = Notification(
        id="i",
        topic_arn=TOPIC,
        timestamp_ms=NOW_MS,
        subject=subject,
        texts={"default": "d\n雪🙂", "http": "for http"},
        attributes={"a": ("String", "b")},
        signature_version=version,
    )
    names = ["Message", "MessageId", *(["Subject"] if subject else []), "Timestamp", "TopicArn", "Type"]
    for protocol in ("http", "sqs"):
        body = parsed(signed_envelope(notification, protocol, signer, BASE))
        assert body["SignatureVersion"] == version
        assert body["SigningCertURL"] == f"{BASE}/{signer.certificate_name}"
        check_independently(body, names, signer.certificate_pem)
        assert verify_body(body, signer.certificate_pem)
        assert not verify_body(body | {"Message": "forged"}, signer.certificate_pem)


@pytest.mark.spec("sns-signature.text", "sns-signature.confirmation", "sns-signature.v1", "sns-signature.v2")
@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("message_type", [MessageType.SUBSCRIPTION_CONFIRMATION, MessageType.UNSUBSCRIBE_CONFIRMATION])
def test_confirmations_verify_and_cover_their_token(signer: Signer, version: str, message_type: MessageType) -> None:
    confirmation = ConfirmationNotice(
        type=message_type,
        id="i",
        token="2336412f37",
        topic_arn=TOPIC,
        subscription_arn=f"{TOPIC}:s",
        timestamp_ms=NOW_MS,
        signature_version=version,
    )
    body = json.loads(signed_confirmation(confirmation, signer, BASE))
    names = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
    check_independently(body, names, signer.certificate_pem)
    assert verify_body(body, signer.certificate_pem)
    with pytest.raises(InvalidSignature):
        check_independently(body, [name for name in names if name != "Token"], signer.certificate_pem)
    assert not verify_body(body | {"Token": "other"}, signer.certificate_pem)


@pytest.mark.spec("sns-envelope.fifo-unsigned")
def test_envelopes_of_fifo_topics_are_not_signed(signer: Signer) -> None:
    notification = Notification(id="i", topic_arn=f"{TOPIC}.fifo", timestamp_ms=NOW_MS, texts={"default": "d"})
    body = parsed(signed_envelope(notification, "sqs", signer, BASE))
    assert not {"Signature", "SignatureVersion", "SigningCertURL"} & body.keys()
    assert not verify_body(body, signer.certificate_pem)


@pytest.mark.spec("sns-retry.same-bytes")
def test_a_retry_sends_the_same_bytes(identity: SigningIdentity) -> None:
    """Also by another process that has not signed anything yet."""
    notification = Notification(id="i", topic_arn=TOPIC, timestamp_ms=NOW_MS, texts={"default": "d"})
    first, second = (signed_envelope(notification, "http", Signer(identity), BASE) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_text_is_signed_once(signer: Signer, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    signature = signer.sign(b"text", version)
    monkeypatch.setattr(signer, "_key", None)  # a second use of the key would fail
    assert signer.sign(b"text", version) == signature
    with pytest.raises(AttributeError):
        signer.sign(b"another text", version)


def test_the_versions_do_not_share_signatures(signer: Signer) -> None:
    signatures = {version: signer.sign(b"text", version) for version in "12"}
    for version, signature in signatures.items():
        assert len(signature) == 344
        assert verify(b"text", signature, version, signer.certificate_pem)
        assert not verify(b"text", signature, "2" if version == "1" else "1", signer.certificate_pem)


def test_what_does_not_verify(signer: Signer, other_identity: SigningIdentity) -> None:
    signature = signer.sign(b"text", "2")
    assert not verify(b"text", signature, "2", other_identity.certificate_pem)
    assert not verify(b"texT", signature, "2", signer.certificate_pem)
    for malformed in ("", "not base64", "AAAA", "é", signature[:-4]):
        assert not verify(b"text", malformed, "2", signer.certificate_pem)
    assert not verify(b"text", signature, "3", signer.certificate_pem)
    assert not verify_body({"Type": "Other", "Signature": signature, "SignatureVersion": "2"}, signer.certificate_pem)
    assert not verify_body({"Type": "Notification"}, signer.certificate_pem)


@pytest.mark.spec("sns-signature.key", "sns-signature.certificate-names", "sns-signature.certificate-one")
def test_the_certificate_is_what_validators_want(identity: SigningIdentity) -> None:
    assert identity.certificate_pem.count(b"BEGIN CERTIFICATE") == 1
    certificate = x509.load_pem_x509_certificate(identity.certificate_pem)
    certificate.verify_directly_issued_by(certificate)
    assert [name.value for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [
        "sns.amazonaws.com"
    ]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["sns.amazonaws.com", *OPT_IN_SIGNERS]
    key = certificate.public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    assert key.key_size == 2048
    now = datetime.fromtimestamp(NOW_MS / 1000, UTC)
    assert certificate.not_valid_before_utc < now < certificate.not_valid_after_utc


@pytest.mark.spec("sns-signature.certificate-url")
def test_the_certificates_name_follows_from_it(identity: SigningIdentity, other_identity: SigningIdentity) -> None:
    name = certificate_name(identity.certificate_pem)
    assert re.fullmatch(r"SimpleNotificationService-[0-9a-f]{32}\.pem", name)
    assert name == Signer(identity).certificate_name
    assert name != certificate_name(other_identity.certificate_pem)


def test_key_and_certificate_belong_together(identity: SigningIdentity, other_identity: SigningIdentity) -> None:
    with pytest.raises(ValueError, match="another key"):
        Signer(SigningIdentity(identity.key_pem, other_identity.certificate_pem))
