"""Certificates for servers on this machine, signed by an authority made for the test."""

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


def make_certificates(directory: Path, *names: str) -> Path:
    """`server.pem` and `server.key` for localhost and these names; returns the authority's, which whoever calls must
    trust."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    name = f"a test's authority {uuid.uuid4().hex}"  # OpenSSL takes two authorities of one name for the same
    authority = _builder(name, name, authority_key)
    authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    server = _builder("localhost", name, server_key)
    server = server.add_extension(x509.SubjectAlternativeName([*_NAMES, *map(x509.DNSName, names)]), critical=False)
    ca_file = directory / "ca.pem"
    for path, builder in ((ca_file, authority), (directory / "server.pem", server)):
        certificate = builder.sign(authority_key, hashes.SHA256())
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / "server.key").write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return ca_file


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=DAYS))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
