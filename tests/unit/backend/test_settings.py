"""Wrong settings: one line and exit code 71 for each, in words for an operator; and variables that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cns_common.configuration.checks import read_contact_points
from cns_common.configuration.settings import Settings, load_settings
from cns_common.configuration.variable_names import unread_variables
from cns_common.errors import EXIT_SETTINGS_WRONG, StartError

ROOT = Path(__file__).parents[3]
LIBRARY_WORDS = re.compile(
    r"pydantic|input should|validation|valid (int|str|path)|value error|type=|string should", re.IGNORECASE
)
QUEUE = '"arns": "arn:aws:sqs:r:1:*", "key_id": "AKIA", "secret": "s"'


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"CNS_{name.upper()}", raising=False)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("REDIS", "localhost:6379", "must be redis://host:port/database"),
        ("REDIS", "redis://", "must be redis://host:port/database"),
        ("REDIS", "redis://h:99999/0", "its host or port cannot be read"),
        ("REDIS", "redis://h:1/x", "x is no database number"),
        ("REDIS", "redis://h/0?socket_timeout=soon", "socket_timeout"),
        ("BROKER", "localhost", "must be a URL of a Celery broker"),
        ("CASSANDRA", "foo:bar", "must be host:port,host:port with one port for all"),
        ("CASSANDRA", "a:1,b:2", "must be host:port,host:port with one port for all"),
        ("CASSANDRA", "http://a:1", "must be host:port,host:port with one port for all"),
        ("CASSANDRA", "", "must be host:port,host:port with one port for all"),
        ("CASSANDRA_KEYSPACE", "My-Keys", "must be a keyspace's name"),
        ("CASSANDRA_DATA_CENTRE", "a b", "must be a data centre's name"),
        ("CASSANDRA_REPLICATION", "0", "must be at least 1"),
        ("CASSANDRA_SITES", "dc1:3", "must be two data centres with their replicas"),
        ("CASSANDRA_SITES", "dc1:3,dc1:3", "must be two data centres with their replicas"),
        ("CASSANDRA_SITES", "dc1:3,dc2:0", "must be two data centres with their replicas"),
        ("CASSANDRA_SITES", "dc1:3,dc2:3", "lacks datacenter1, which is CNS_CASSANDRA_DATA_CENTRE"),
        ("PUBLIC_URL", "host", "must be a URL such as https://host"),
        ("PUBLIC_URL", "host:8080", "must be a URL such as https://host"),
        ("PUBLIC_URL", "ftp://host", "must be a URL such as https://host"),
        ("PUBLIC_URL", "https://", "must be a URL such as https://host"),
        ("PUBLIC_URL", "https://host/?a=b", "must be scheme, host, port and path alone"),
        ("QUEUE_URL", "10.0.0.5:6059", "must be a URL such as https://host"),
        ("GATEWAY_URL", "http://", "must be a URL such as https://host"),
        ("GATEWAY_URL", "https://host/a b", "must have no blanks"),
        ("ALLOWED_NETWORKS", "10.0.0.1/8", "10.0.0.0/8 is meant"),
        ("ALLOWED_NETWORKS", "10.0.0.0/8,intranet", "intranet is no network such as 10.0.0.0/8"),
        ("PORT", "http", "must be a whole number"),
        ("PORT", "65536", "must be at most 65535"),
        ("PORT", "1" * 5_000, "must be"),
        ("HOST", "", "must not be empty"),
        ("DATA", "d" * 95, "is 1 bytes too long"),
        ("AUTH", "maybe", "must be 'on' or 'off'"),
        ("STORE", "sqlite", "must be 'embedded' or 'cassandra'"),
        ("LOG_LEVEL", "loud", "must be 'debug', 'info', 'warning' or 'error'"),
        ("ACCOUNT_ID", "12", "must be 12 digits"),
        ("REGION", "Mars 1", "must be a region"),
        ("DEFAULT_ENGINE", "Cqs", "must be the name of a queue engine"),
        ("INTERNAL_ENGINE", "a b", "must be the name of a queue engine"),
        ("TEST_CLOCK", "perhaps", "must be true or false"),
        ("TLS_CERT", "/no/such/file", "there is no such file"),
        ("TLS_KEY", __file__, "needs CNS_TLS_CERT"),
        ("CA_BUNDLE", __file__, "this is no PEM file"),
        ("DELIVERY_TIMEOUT_S", "nan", "must be a finite number"),
        ("DELIVERY_TIMEOUT_S", "-1", "must be more than 0"),
        ("DELIVERY_TIMEOUT_S", "soon", "must be a number"),
        ("MAINTENANCE_S", "inf", "must be a finite number"),
        ("RECREATE_WAIT_S", "-1", "must be at least 0"),
        ("BODY_BYTES_MAX", "0", "must be at least 1"),
        ("CONNECTIONS_MAX", "-5", "must be at least 1"),
        ("MAIL_FROM", "Shop", "must be a mail address"),
        ("QUEUE_KEY_ID", "short", "must be 16 to 128 letters"),
        ("QUEUE_SECRET", "s", "CNS_QUEUE_KEY_ID and CNS_QUEUE_SECRET go together"),
        ("REMOTE_QUEUES", "[1]", "must be a JSON object"),
        ("REMOTE_QUEUES", "[{}]", "[arns]=…: must be given"),
        ("REMOTE_QUEUES", '[{"arns": "a"}]', "must be an ARN"),
        ("REMOTE_QUEUES", f'[{{{QUEUE}, "url": "host"}}]', "[url]=…: must be a URL such as https://host"),
        ("REMOTE_QUEUES", f'[{{{QUEUE}, "url": "http://h", "colour": 1}}]', "is not known here"),
        ("MASTER_KEY", "c2hvcnQ=", "must be the base64 text of 32 bytes"),
        ("SMTP_URL", "relay:587", "must be smtp://"),
        ("CORS_ORIGINS", "app.example.com", "must be an origin such as https://app.example.com"),
        ("CORS_ORIGINS", "https://a.example.com,https://b.example.com/", "must be an origin"),
        ("METRICS_TOKEN", "short", "CNS_METRICS_TOKEN=…: must be 16 to 256 letters"),
        ("METRICS_TOKEN", "sixteen letters and blanks", "CNS_METRICS_TOKEN=…: must be 16 to 256 letters"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str) -> None:
    monkeypatch.setenv(f"CNS_{name}", value)
    with pytest.raises(StartError) as refused:
        load_settings()
    line = str(refused.value)
    assert refused.value.exit_code == EXIT_SETTINGS_WRONG
    assert line.startswith("CNS_") and said in line and len(line) < 600, line
    assert "\n" not in line and not LIBRARY_WORDS.search(line), line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REDIS", "redis://user:pass%40word@[::1]:6379/1?socket_timeout=5"),
        ("REDIS", "rediss://h"),
        ("REDIS", "unix:///run/redis.sock?db=2"),
        ("BROKER", "amqp://guest@h//"),
        ("CASSANDRA", "a:9042, b:9042,"),
        ("CASSANDRA", "[::1]:9042"),
        ("PUBLIC_URL", "https://sns.example.com/prefix"),
        ("GATEWAY_URL", "https://user:secret@gateway.example.com/in?kind=sms"),
        ("ALLOWED_NETWORKS", "10.0.0.0/8, fd00::/8, 127.0.0.1"),
        ("MASTER_KEY", "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="),
        ("DATA", ""),
        ("PORT", "0"),
        ("EVENTS_DIR", ""),
        ("CA_BUNDLE", ""),
    ],
)
def test_what_is_right(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"CNS_{name}", value)
    settings = load_settings()
    assert (settings.data, settings.events_dir, settings.ca_bundle) == (Path("data"), None, None)


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("REDIS", "rediss://:hunter2@h:x", "hunter2"),
        ("GATEWAY_URL", "gopher://u:hunter2@h", "hunter2"),
        ("PUBLIC_URL", "https://u:hunter2@h", "hunter2"),
        ("SMTP_URL", "smtps://u:hunter2@h?x", "hunter2"),
        ("MASTER_KEY", "hunter2", "hunter2"),
        ("REMOTE_QUEUES", '[{"secret": "hunter2"}]', "hunter2"),
    ],
)
def test_passwords_are_not_shown(monkeypatch: pytest.MonkeyPatch, name: str, value: str, secret: str) -> None:
    monkeypatch.setenv(f"CNS_{name}", value)
    with pytest.raises(StartError) as refused:
        load_settings()
    assert secret not in str(refused.value)


def test_a_value_of_many_lines_takes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CNS_STORE", "a\nb\x1b[2J" + "x" * 1_000)
    with pytest.raises(StartError) as refused:
        load_settings()
    assert str(refused.value).isprintable() and len(str(refused.value)) < 400


def test_contact_points() -> None:
    assert read_contact_points("a, b:9042") == (("a", "b"), 9042)
    assert read_contact_points("10.0.0.1:19042,10.0.0.2:19042") == (("10.0.0.1", "10.0.0.2"), 19_042)
    assert read_contact_points("[::1]:1") == (("::1",), 1)


# -- variables that nothing reads -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CNS_LOGLEVEL", "CNS_LOG_LEVEL"),
        ("CNS_REDIS_URL", "CNS_REDIS"),
        ("CNS_ALOWED_NETWORK", "CNS_ALLOWED_NETWORKS"),
        ("CNS_WORKRES", "CNS_WORKERS"),
        ("cns_public_ur", "CNS_PUBLIC_URL"),
    ],
)
def test_a_misspelt_variable_is_told_with_the_nearest_name(name: str, meant: str) -> None:
    (line,) = unread_variables(["PATH", name, "CNS_PORT", "CNS_WORKERS"], Settings.model_fields)
    assert line == f"{name} is no setting, and is ignored: is {meant} meant?"


def test_what_is_like_no_setting() -> None:
    assert unread_variables(["CNS_XYZZY"], ["port"]) == ["CNS_XYZZY is no setting, and is ignored"]


def variables_read_somewhere() -> Iterator[str]:
    """The variables that files of this repository name, in any language."""
    packages = [path for name in ("cns*", "workers") for path in ROOT.glob(name) if path.is_dir()]
    modules = [path for package in packages for path in package.rglob("*.py")]
    files = [ROOT / "docker-compose.yml", *(ROOT / "deploy").rglob("*"), *modules]
    for path in files:
        if path.is_file() and path.suffix != ".pyc":
            yield from re.findall(r"\bCNS_[A-Z][A-Z0-9_]*[A-Z0-9]\b", path.read_text(errors="replace"))


def test_what_other_parts_read_raises_no_alarm() -> None:
    named = set(variables_read_somewhere()) - {"CNS_API_", "CNS_SERVERS", "CNS_NAME"}
    assert {"CNS_BALANCER", "CNS_API_1", "CNS_SERVERS_DIR", "CNS_CASSANDRA_HEAP", "CNS_PORT"} <= named
    assert unread_variables([*named, "cns_port", "CNS_TEST_SEED"], Settings.model_fields) == []
