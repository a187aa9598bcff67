"""Wrong settings and misspelt variables, as the person sees them who starts the service."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from lab.harness import commands
from lab.harness.processes import BIN
from lab.harness.running import running, start
from lab.harness.waiting import PATIENCE_S
from tests.acceptance.up.test_up import EXIT_SETTINGS_WRONG, EXIT_TLS_UNUSABLE, ends_saying
from tests.marks import extended
from tests.private_servers.certificates import make_certificates


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CNS_CASSANDRA", "foo:bar"),
        *extended(
            ("CNS_REDIS", "localhost:6379"),
            ("CNS_PUBLIC_URL", "host"),
            ("CNS_MASTER_KEY", "secret"),
            ("CNS_DEFAULT_ENGINE", "Nonsense!"),
        ),
    ],
)
@pytest.mark.parametrize("store", ["embedded", *extended("cassandra")])
def test_up_ends_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, store: str
) -> None:
    monkeypatch.setenv("CNS_STORE", store)
    monkeypatch.setenv(name, value)
    ends_saying(start(tmp_path / "data"), EXIT_SETTINGS_WRONG, f"{name}=", "must be")


@pytest.mark.parametrize("role", ["api", *extended("worker")])
def test_a_process_of_its_own_says_so_itself(tmp_path: Path, role: str) -> None:
    environment = {**os.environ, "CNS_STORE": "cassandra", "CNS_CASSANDRA": "foo:bar", "CNS_DATA": str(tmp_path)}
    done = subprocess.run([BIN / "cns", role], env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, line[:27]) == (EXIT_SETTINGS_WRONG, "cns: CNS_CASSANDRA=foo:bar:")


@pytest.mark.parametrize(
    "command", ["account list", "outbox list", "pool list", "schema show", "sms opt-out +15550001", "quarantine list"]
)
def test_commands_say_so_too(tmp_path: Path, command: str) -> None:
    environment = {**os.environ, "CNS_REDIS": "localhost", "CNS_DATA": str(tmp_path)}
    done = commands.run(*command.split(), environment=environment)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, line[:24]) == (EXIT_SETTINGS_WRONG, "cns: CNS_REDIS=localhost")


def test_a_key_with_a_passphrase_asks_nobody(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    path = tmp_path / "server.key"
    key = load_pem_private_key(path.read_bytes(), None)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open sesame")))
    service = start(tmp_path / "data", "--tls-cert", str(tmp_path / "server.pem"), "--tls-key", str(path))
    ends_saying(service, EXIT_TLS_UNUSABLE, "passphrase")


@pytest.mark.extended
@pytest.mark.parametrize("api", ["1", *extended("2")])
def test_a_misspelt_variable_is_told_once_and_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    monkeypatch.setenv("CNS_LOGLEVEL", "debug")
    monkeypatch.setenv("CNS_SERVERS_DIR", "elsewhere")
    with running(tmp_path / "data", "--api", api) as service:
        said = [line for line in service.said().splitlines() if "is no setting" in line]
        assert said == ["cns: CNS_LOGLEVEL is no setting, and is ignored: is CNS_LOG_LEVEL meant?"]
