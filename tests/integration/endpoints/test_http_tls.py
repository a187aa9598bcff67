"""HTTPS endpoints: the certificates that a sender accepts, and those that it refuses."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cns.delivery.retry_policy import RetryPolicy
from cns.endpoints.outcome import Cause, Delivered, Failed
from cns_common.configuration.settings import Settings, load_settings
from cns_common.errors import StartError
from cns_common.tls import client_context
from cns_workers.consumers.retry_decision import judge
from tests.integration.endpoints.http_endpoints import OK, answer_with, post, serve_endpoint
from tests.private_servers.certificates import with_extensions

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


class IssuedCertificate(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def issue(
    name: str, *, by: IssuedCertificate | None = None, hosts: tuple[str, ...] = (), until: datetime = NOW + DAY
) -> IssuedCertificate:
    """A certificate by the issuer `by`. Without one it is self-signed, and an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = by or IssuedCertificate(None, key)  # type: ignore[arg-type]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 2 * DAY)
        .not_valid_after(until)
    )
    builder = with_extensions(builder, key, issuer.key)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False)
    return IssuedCertificate(builder.sign(issuer.key, hashes.SHA256()), key)


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


@pytest.fixture(scope="module")
def authority() -> IssuedCertificate:
    return issue("an operator's authority")


@pytest.fixture
def bundle(tmp_path: Path, authority: IssuedCertificate) -> Path:
    path = tmp_path / "authorities.pem"
    path.write_bytes(authority.pem)
    return path


def server_context(issued: IssuedCertificate, directory: Path) -> ssl.SSLContext:
    path = directory / "server.pem"
    key = issued.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(issued.pem + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_an_authority_of_the_bundle_is_trusted(
    tmp_path: Path, authority: IssuedCertificate, bundle: Path, host: str
) -> None:
    asked: list[str | None] = []
    context = server_context(issue("endpoint", by=authority, hosts=("127.0.0.1", "localhost")), tmp_path)
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with serve_endpoint(answer_with(OK), tls=context) as endpoint:
        (outcome,) = await post(endpoint.url.replace("127.0.0.1", host) + "/", verify=client_context(bundle))
    assert isinstance(outcome, Delivered), outcome
    assert asked == [None if host == "127.0.0.1" else host], "SNI has the name of the URL"


@pytest.mark.spec("sns-answer.tls")
@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("expired", "certificate has expired"),
        ("another host's", "IP address mismatch"),
        ("its own", "self-signed certificate"),
        ("a stranger's", "unable to get local issuer certificate"),
    ],
)
async def test_an_untrusted_certificate_is_retried(
    tmp_path: Path, authority: IssuedCertificate, bundle: Path, fault: str, text: str
) -> None:
    hosts = ("127.0.0.1",)
    issued = {
        "expired": lambda: issue("endpoint", by=authority, hosts=hosts, until=NOW - DAY),
        "another host's": lambda: issue("endpoint", by=authority, hosts=("127.0.0.2", "example.com")),
        "its own": lambda: issue("endpoint", hosts=hosts),
        "a stranger's": lambda: issue("endpoint", by=issue("a stranger"), hosts=hosts),
    }[fault]()
    async with serve_endpoint(answer_with(OK), tls=server_context(issued, tmp_path)) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/", verify=client_context(bundle))
    assert isinstance(outcome, Failed) and outcome.cause is Cause.TLS
    assert text in outcome.text
    assert endpoint.requests == [], "an endpoint with a refused certificate gets no request"
    verdict = judge(outcome, RetryPolicy(), failures=1, elapsed_s=0.1, jitter=0.0, client_errors_succeed=False)
    assert verdict.retry is not None


async def test_without_a_bundle_only_system_authorities_are_trusted(
    tmp_path: Path, authority: IssuedCertificate
) -> None:
    issued = issue("endpoint", by=authority, hosts=("127.0.0.1",))
    async with serve_endpoint(answer_with(OK), tls=server_context(issued, tmp_path)) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/", verify=client_context(None))
    assert isinstance(outcome, Failed) and outcome.cause is Cause.TLS


def test_the_bundle_adds_to_system_authorities(bundle: Path) -> None:
    systems = client_context(None).get_ca_certs(binary_form=True)
    both = client_context(bundle).get_ca_certs(binary_form=True)
    assert len(both) == len(systems) + 1
    assert client_context(bundle) is client_context(bundle), "made once for all threads"
    assert client_context(bundle).minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"", "no PEM file of certificates"), (b"hello", "no PEM file of certificates"), (None, "there is no such file")],
)
def test_an_invalid_bundle_fails_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, complaint: str
) -> None:
    path = tmp_path / "bundle.pem"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("CNS_CA_BUNDLE", str(path))
    with pytest.raises(StartError, match=f"CNS_CA_BUNDLE=.*{complaint}"):
        load_settings()


def test_a_bundle_is_a_setting(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().ca_bundle is None
    monkeypatch.setenv("CNS_CA_BUNDLE", str(bundle))
    assert load_settings().ca_bundle == bundle
