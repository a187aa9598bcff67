"""The key that signs notifications, its certificate, and the signatures.

RSA PKCS#1 v1.5 is deterministic: the same text under the same key always gets the same signature, so a retry sends the
same bytes and a signature made once may be kept.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.x509.oid import NameOID

from cns.stores.contract import SigningIdentity

SIGNER_NAME = "sns.amazonaws.com"  # the Java SDK's validator requires this name in the certificate
OPT_IN_REGIONS = (  # where it requires sns-signing.REGION.amazonaws.com
    "af-south-1",
    "ap-east-1",
    "ap-east-2",
    "ap-south-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-west-1",
    "eu-central-2",
    "eu-south-1",
    "eu-south-2",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "mx-central-1",
)
KEY_BITS = 2048
VALID_DAYS = 3_650  # the key stays: retries have the same bytes, and a stored message may be verified years later
SIGNATURES_CACHED_MAX = 8192  # of 344 characters each

_NAMES = (SIGNER_NAME, *(f"sns-signing.{region}.amazonaws.com" for region in OPT_IN_REGIONS))
_PADDING = PKCS1v15()
_HASHES: MappingProxyType[str, tuple[str, hashes.HashAlgorithm]] = MappingProxyType(
    {"1": ("sha1", hashes.SHA1()), "2": ("sha256", hashes.SHA256())}
)

_SIGNS_ONLY = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


class MessageSignature(NamedTuple):
    """The members of a signed message that carry its signature."""

    version: str
    signature: str
    certificate_url: str


def new_identity(now_ms: int) -> SigningIdentity:
    """A new key with a self-signed certificate, valid from a day before now (receivers' clocks differ)."""
    key = generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SIGNER_NAME)])
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, _NAMES))), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_SIGNS_ONLY, critical=True)
        .sign(key, hashes.SHA256())
    )
    return SigningIdentity(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        certificate.public_bytes(serialization.Encoding.PEM),
    )


class Signer:
    """Signs with one key; safe to share between threads."""

    def __init__(self, identity: SigningIdentity) -> None:
        key = serialization.load_pem_private_key(identity.key_pem, password=None)
        if not isinstance(key, RSAPrivateKey):
            raise ValueError("notifications are signed with an RSA key")
        if x509.load_pem_x509_certificate(identity.certificate_pem).public_key() != key.public_key():
            raise ValueError("the signing certificate belongs to another key")
        self._key = key
        self.certificate_pem = identity.certificate_pem
        self.certificate_name = certificate_name(identity.certificate_pem)
        self._signature = lru_cache(maxsize=SIGNATURES_CACHED_MAX)(self._sign_digest)

    def sign(self, canonical: bytes, version: str) -> str:
        """The signature, in base64, of a text under signature version "1" (SHA-1) or "2" (SHA-256)."""
        return self._signature(version, _digest(canonical, version))

    def sign_message(self, canonical: bytes, version: str, base_url: str) -> MessageSignature:
        return MessageSignature(version, self.sign(canonical, version), f"{base_url}/{self.certificate_name}")

    def _sign_digest(self, version: str, digest: bytes) -> str:
        return b64encode(self._key.sign(digest, _PADDING, Prehashed(_HASHES[version][1]))).decode("ascii")


def certificate_name(certificate_pem: bytes) -> str:
    """The file name of a certificate in SigningCertURL, derived from its fingerprint."""
    fingerprint = x509.load_pem_x509_certificate(certificate_pem).fingerprint(hashes.SHA256())
    return f"SimpleNotificationService-{fingerprint[:16].hex()}.pem"


def verify(canonical: bytes, signature: str, version: str, certificate_pem: bytes) -> bool:
    """Whether the key of the certificate signed this text. A malformed signature is False, a bad PEM raises."""
    key = x509.load_pem_x509_certificate(certificate_pem).public_key()
    if version not in _HASHES or not isinstance(key, RSAPublicKey):
        return False
    try:
        key.verify(b64decode(signature, validate=True), canonical, _PADDING, _HASHES[version][1])
    except (InvalidSignature, ValueError):
        return False
    return True


def _digest(canonical: bytes, version: str) -> bytes:
    return hashlib.new(_HASHES[version][0], canonical).digest()
