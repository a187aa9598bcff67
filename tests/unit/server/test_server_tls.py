"""Certificates that change while the service runs, and those of callers: handshakes in memory."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from cns_backend.queue_port import _own_certificate
from cns_common.configuration.settings import Settings
from cns_server.server_tls import ServerTls, client_subject
from tests.private_servers.certificates import Authority


class Fixture:
    """The service's files, and the authority of each."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self.servers = Authority(directory, "servers")
        self.certificate, self.key = self.servers.issue_server("server")
        self.settings = Settings(tls_cert=self.certificate, tls_key=self.key, **settings)
        self.tls = ServerTls(self.settings)

    def replace(self, path: Path, content: bytes) -> None:
        """In one step, as tools that renew certificates do."""
        new = path.with_suffix(".new")
        new.write_bytes(content)
        new.replace(path)

    def renew(self) -> tuple[bytes, bytes]:
        """A certificate and a key that are not in place."""
        certificate, key = self.servers.issue_server("renewed")
        return certificate.read_bytes(), key.read_bytes()

    def reload(self, times: int = 2) -> list[str]:
        """The events that are logged."""
        with capture_logs() as events:
            for _ in range(times):
                self.tls.reload()
        return [event["event"] for event in events]

    def served(self, name: str | None = "localhost") -> bytes:
        client, _ = self.handshake(name=name)
        return ssl.DER_cert_to_PEM_cert(client.getpeercert(binary_form=True) or b"").encode()

    def handshake(
        self, pair: tuple[Path, Path] | None = None, *, name: str | None = "localhost"
    ) -> tuple[ssl.SSLObject, ssl.SSLObject]:
        """Client and server. Raises ssl.SSLError, as the server does."""
        context = ssl.create_default_context(cafile=str(self.servers.file))
        context.check_hostname = name is not None
        if pair is not None:
            context.load_cert_chain(*pair)
        return self.connect(context, name)

    def connect(
        self, context: ssl.SSLContext, name: str | None = None, session: ssl.SSLSession | None = None
    ) -> tuple[ssl.SSLObject, ssl.SSLObject]:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(to_client, to_server, server_hostname=name, session=session)
        server = self.tls.context.wrap_bio(to_server, to_client, server_side=True)
        for _ in range(3):
            for side in (client, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        server.write(b"x")
        assert client.read(1) == b"x"
        return client, server

    def subject(self, pair: tuple[Path, Path] | None = None) -> str:
        _, server = self.handshake(pair)
        return client_subject(Transport(server))  # type: ignore[arg-type]  # it has what is used of one


class Transport:
    def __init__(self, tls: ssl.SSLObject | None) -> None:
        self._tls = tls

    def get_extra_info(self, name: str) -> Any:
        assert name == "ssl_object"
        return self._tls


@pytest.fixture
def fixture(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path)


# -- changed files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["localhost", None])
def test_a_handshake_takes_the_newest_certificate(fixture: Fixture, name: str | None) -> None:
    old = fixture.served(name)
    assert fixture.reload() == []
    certificate, key = fixture.renew()
    fixture.replace(fixture.certificate, certificate)
    fixture.replace(fixture.key, key)
    assert fixture.served(name) == old
    assert fixture.reload() == ["tls.reloaded"]
    assert fixture.served(name) == certificate
    assert fixture.reload() == []


def test_a_pair_that_is_written_one_by_one_is_waited_for(fixture: Fixture) -> None:
    certificate, key = fixture.renew()
    fixture.replace(fixture.certificate, certificate)
    assert fixture.reload(1) == []
    fixture.replace(fixture.key, key)
    assert fixture.reload() == ["tls.reloaded"]
    assert fixture.served() == certificate


@pytest.mark.parametrize(
    "wrong", ["mismatch", "half a certificate", "half a key", "empty", "missing", "no key", "directory"]
)
def test_a_pair_that_cannot_be_used_keeps_the_old_one_and_is_told_once(fixture: Fixture, wrong: str) -> None:
    old, old_key = fixture.certificate.read_bytes(), fixture.key.read_bytes()
    certificate, key = fixture.renew()
    match wrong:
        case "mismatch":
            fixture.replace(fixture.certificate, certificate)
        case "half a certificate":
            fixture.certificate.write_bytes(old[: len(old) // 2])
        case "half a key":
            fixture.replace(fixture.certificate, certificate)
            fixture.key.write_bytes(key[: len(key) // 2])
        case "empty":
            fixture.certificate.write_bytes(b"")
        case "missing":
            fixture.certificate.unlink()
        case "no key":
            fixture.key.unlink()
        case "directory":
            fixture.key.unlink()
            fixture.key.mkdir()
    assert fixture.reload(5) == ["tls.reload_failed"]
    assert fixture.served() == old
    if wrong == "directory":
        fixture.key.rmdir()
    fixture.replace(fixture.certificate, certificate)
    fixture.replace(fixture.key, key)
    assert fixture.reload(5) == ["tls.reloaded"]
    assert fixture.served() == certificate
    fixture.replace(fixture.certificate, old)
    fixture.replace(fixture.key, old_key)
    assert fixture.reload(5) == ["tls.reloaded"]


def test_a_worker_that_calls_the_service_trusts_its_new_certificate(fixture: Fixture) -> None:
    """And the one before, until the service has read the new one."""
    trusting = _own_certificate(fixture.settings)
    assert trusting is not None
    certificate, key = fixture.renew()
    fixture.replace(fixture.certificate, certificate)
    fixture.connect(trusting)
    fixture.replace(fixture.key, key)
    fixture.connect(trusting)
    assert fixture.reload() == ["tls.reloaded"]
    fixture.connect(trusting)
    fixture.certificate.unlink()
    fixture.connect(trusting)


# -- callers' certificates --------------------------------------------------------------------------------------------


SUBJECT = x509.Name(
    [
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, 'Müller, Söhne + "Co"; <x>'),
        x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, " #1 "),
        x509.NameAttribute(NameOID.COMMON_NAME, "billing=1\\2"),
    ]
)
TEXT = r"CN=billing=1\\2,OU=\ #1\ ,O=Müller\, Söhne \+ \"Co\"\; \<x\>,C=DE"


@pytest.fixture
def callers(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "callers")


def test_the_subject_is_as_rfc_4514_writes_it(tmp_path: Path, callers: Authority) -> None:
    fixture = Fixture(tmp_path, client_ca=callers.file)
    assert fixture.subject(callers.issue("billing", SUBJECT)) == TEXT
    assert fixture.subject() == ""
    assert client_subject(Transport(None)) == ""  # type: ignore[arg-type]  # it has what is used of one


def test_without_an_authority_nobody_is_asked(tmp_path: Path, callers: Authority) -> None:
    assert Fixture(tmp_path).subject(callers.issue("billing", SUBJECT)) == ""


@pytest.mark.parametrize("mode", ["optional", "required"])
def test_a_certificate_of_another_authority_is_refused(tmp_path: Path, callers: Authority, mode: str) -> None:
    fixture = Fixture(tmp_path, client_ca=callers.file, client_certificate=mode)
    with pytest.raises(ssl.SSLCertVerificationError):
        fixture.handshake(Authority(tmp_path, "others").issue("billing", SUBJECT))


def test_a_certificate_may_be_required(tmp_path: Path, callers: Authority) -> None:
    fixture = Fixture(tmp_path, client_ca=callers.file, client_certificate="required")
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        fixture.handshake()
    assert fixture.subject(callers.issue("billing", SUBJECT)) != ""


def test_the_authority_is_read_again_too(tmp_path: Path, callers: Authority) -> None:
    fixture = Fixture(tmp_path, client_ca=callers.file)
    before, new = callers.issue("billing", SUBJECT), Authority(tmp_path, "new")
    after = new.issue("after", SUBJECT)
    fixture.replace(callers.file, new.file.read_bytes())
    assert fixture.reload() == ["tls.reloaded"]
    assert fixture.subject(after) != ""
    with pytest.raises(ssl.SSLCertVerificationError):
        fixture.handshake(before)


def test_no_session_outlives_its_certificate(tmp_path: Path, callers: Authority) -> None:
    client, _ = Fixture(tmp_path, client_ca=callers.file).handshake(callers.issue("billing", SUBJECT))
    assert client.session is not None
    assert not client.session.has_ticket


def test_no_session_outlives_its_authority(tmp_path: Path, callers: Authority) -> None:
    """OpenSSL keeps sessions of TLS 1.2 by their ids."""
    fixture = Fixture(tmp_path, client_ca=callers.file, client_certificate="required")
    context = ssl.create_default_context(cafile=str(fixture.servers.file))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*callers.issue("billing", SUBJECT))
    open_ones = [fixture.connect(context, "localhost")]  # OpenSSL drops the session of one that is cut off
    session = open_ones[0][0].session
    open_ones.append(fixture.connect(context, "localhost", session))
    assert open_ones[1][1].session_reused
    fixture.replace(callers.file, Authority(tmp_path, "new").file.read_bytes())
    assert fixture.reload() == ["tls.reloaded"]
    with pytest.raises(ssl.SSLCertVerificationError):
        fixture.connect(context, "localhost", session)
