"""Certificates for servers on this machine and their callers, signed by an authority made for the test."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAYS = 2
_NAMES = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]


class Authority:
    """Its own certificate is the file `NAME.pem`, which whoever is called must trust."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(f"a test's authority {uuid.uuid4().hex}")  # OpenSSL takes two of one name for the same
        self.file = self._write(name, self._builder(self._name, self._key))

    def issue(self, name: str, subject: x509.Name, *names: x509.GeneralName) -> tuple[Path, Path]:
        """The files `NAME.pem` and `NAME.key`."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        key_file = self._directory / f"{name}.key"
        pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        key_file.write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
        return self._write(name, builder), key_file

    def issue_server(self, name: str = "server", *names: str) -> tuple[Path, Path]:
        """The same, for localhost and these names."""
        return self.issue(name, _name("localhost"), *_NAMES, *map(x509.DNSName, names))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=DAYS))
        )
        return with_extensions(builder, key, self._key)

    def _write(self, name: str, builder: x509.CertificateBuilder) -> Path:
        path = self._directory / f"{name}.pem"
        path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path


def with_extensions(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, issuer_key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """What RFC 5280 demands, and Python from 3.13 on. A certificate by its own key is an authority's."""
    authority = key is issuer_key
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    usage = dict.fromkeys((*others, "encipher_only", "decipher_only"), False)
    usage |= {"digital_signature": not authority, "key_cert_sign": authority, "crl_sign": authority}
    return (
        builder.add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )


def make_certificates(directory: Path, *names: str) -> Path:
    """`server.pem` and `server.key` for localhost and these names; returns the authority's, which whoever calls must
    trust."""
    authority = Authority(directory)
    authority.issue_server("server", *names)
    return authority.file


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
