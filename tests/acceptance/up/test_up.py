"""`cns up`: its start, the line with which a start fails, and its stop."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from cns_pytest.processes import exports
from lab.harness.endpoints import Endpoint
from lab.harness.ports import free_port
from lab.harness.running import Up, running, start
from lab.harness.waiting import wait_until
from tests.acceptance.polls import Poll
from tests.acceptance.topics import Topic
from tests.marks import extended

EXIT_SETTINGS_WRONG = 71
EXIT_PORT_TAKEN = 72
EXIT_DATA_IN_USE = 73
EXIT_DATA_UNUSABLE = 74
EXIT_ADDRESS_UNUSABLE = 75
EXIT_TLS_UNUSABLE = 76
_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE = 1


def without_override() -> None:
    """Let root, too, be refused what the file's mode refuses."""
    ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE)


def ends_saying(service: Up, exit_code: int, *words: str) -> None:
    """It ends with this code and one line, in which these words are."""
    assert service.process.wait() == exit_code, service.said()
    (line,) = service.said().splitlines()
    assert line.startswith("cns: ")
    assert all(word in line for word in words), line


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_the_first_start_prints_works(tmp_path: Path) -> None:
    with running(tmp_path / "data") as service:
        assert set(service.environment) == {
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
            "AWS_ENDPOINT_URL",
        }
        assert service.environment["AWS_ENDPOINT_URL"] == service.url
        assert service.aws("sqs", "list-queues") is None
        assert service.health()["status"] == "green"
        assert service.get("/_cns/clock")[0] == 404, "there is no test clock unless asked for"
        keys = dict(service.environment)
    with running(tmp_path / "data") as service:
        assert service.environment == {}, "secrets are shown once"
        service.environment.update(keys)
        assert "QueueUrls" not in service.client("sqs").list_queues()


def test_the_first_key_goes_to_a_file_that_the_service_cannot_read(tmp_path: Path) -> None:
    """As the Debian package has it: of another user, who let the service append."""
    file = tmp_path / "first-key"
    named = {"CNS_FIRST_KEY_FILE": str(file)}
    with running(tmp_path / "made", environment=named) as service:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("# kept\n")
    file.chmod(0o200)
    with running(tmp_path / "data", environment=named, first=without_override) as service:
        assert service.environment == {}
        assert str(file) in service.said() and "SECRET" not in service.said()
        text = file.read_text()
        assert text.startswith("# kept\n# account ")
        service.environment.update(exports(text))
        assert "QueueUrls" not in service.client("sqs").list_queues()
    with running(tmp_path / "data", environment=named) as service:
        assert file.read_text() == text, "an account is there: nothing is written"


def test_there_is_no_account_if_the_file_for_its_key_cannot_be_written(tmp_path: Path) -> None:
    missing = {"CNS_FIRST_KEY_FILE": str(tmp_path / "none" / "first-key")}
    ends_saying(
        start(tmp_path / "data", environment=missing), EXIT_SETTINGS_WRONG, "CNS_FIRST_KEY_FILE", "No such file"
    )
    with running(tmp_path / "data") as service:
        assert service.environment, "the first start that ends well"


@pytest.mark.extended
def test_a_second_start_on_the_same_data_harms_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "data") as first:
        before = first.health()
        ends_saying(start(first.data), EXIT_DATA_IN_USE, str(first.data), "in use", str(first.process.pid))
        port = int(first.url.rpartition(":")[2])
        ends_saying(start(first.data, port=port), EXIT_DATA_IN_USE, str(first.data), "in use")
        assert first.health() == before
        assert first.client("sqs").create_queue(QueueName="q")["QueueUrl"]


@pytest.mark.extended
def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    wrong = tmp_path / "cert.pem"
    wrong.write_text("my diary")
    ends_saying(start(tmp_path / "data", "--tls-cert", str(wrong)), EXIT_TLS_UNUSABLE, str(wrong))


@pytest.mark.extended
def test_a_taken_port(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port: int = holder.getsockname()[1]
        ends_saying(start(tmp_path / "data", port=port), EXIT_PORT_TAKEN, str(port), "taken")
        assert not (tmp_path / "data").exists(), "such a start leaves nothing"
        (tmp_path / "kept").mkdir()
        ends_saying(start(tmp_path / "kept", port=port), EXIT_PORT_TAKEN, str(port), "taken")
        assert (tmp_path / "kept").is_dir(), "what was there before stays"
    with running(tmp_path / "data", port=port) as service:
        assert service.environment, "the first start of this data"


def test_a_data_directory_that_cannot_be_written(tmp_path: Path) -> None:
    data = tmp_path / "closed" / "data"
    data.parent.mkdir(mode=0o555)
    ends_saying(start(data, port=free_port(), first=without_override), EXIT_DATA_UNUSABLE, str(data), "Permission")
    data.parent.chmod(0o755)
    data.mkdir(mode=0o555)
    ends_saying(start(data, port=free_port(), first=without_override), EXIT_DATA_UNUSABLE, str(data), "Permission")


@pytest.mark.extended
def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "store.db").touch(mode=0o444)
    ends_saying(start(data, first=without_override), EXIT_DATA_UNUSABLE, str(data / "store.db"), "Permission")


@pytest.mark.extended
def test_a_store_that_is_gone_while_its_key_is_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "master.key").write_text("key")
    ends_saying(start(data), EXIT_DATA_UNUSABLE, str(data / "store.db"), "is missing", "remove master.key")
    assert sorted(path.name for path in data.iterdir()) == ["lock", "master.key", "up.lock"]


@pytest.mark.extended
def test_what_is_no_database_is_said_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "store.db").write_bytes(b"my diary" * 4096)
    ends_saying(start(data), EXIT_DATA_UNUSABLE, str(data), "not a database")
    assert (data / "store.db").read_bytes() == b"my diary" * 4096


@pytest.mark.parametrize(
    "option, exit_code",
    [
        (("--auth", "maybe"), EXIT_SETTINGS_WRONG),
        *extended(
            (("--account-id", "12"), EXIT_SETTINGS_WRONG),
            (("--host", "no.such.host.invalid"), EXIT_ADDRESS_UNUSABLE),
            (("--tls-cert", "/no/such/file"), EXIT_SETTINGS_WRONG),
        ),
    ],
)
def test_wrong_options(tmp_path: Path, option: tuple[str, str], exit_code: int) -> None:
    ends_saying(start(tmp_path / "data", *option), exit_code, option[1])


@pytest.mark.spec("overload.stopping-poll")
def test_a_stop_lets_work_end(tmp_path: Path, endpoint: Endpoint) -> None:
    endpoint.behave(delay_ms=2_000, times=1)
    with running(tmp_path / "data") as service:
        sqs, sns = service.client("sqs"), service.client("sns")
        topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
        topic.subscribe("http", endpoint.url)
        polls = [Poll(service, sqs.create_queue(QueueName=f"q{n}")["QueueUrl"]) for n in range(3)]
        for poll in polls:
            poll.start()
        topic.publish("slow")
        endpoint.wait(received=1)
        pids = [service.process.pid, *service.pids().values()]
        service.process.send_signal(signal.SIGTERM)
        assert [poll.bodies() for poll in polls] == [[], [], []]
        assert service.process.wait() == 0
        assert endpoint.look()["accepted"] == 1
        assert [pid for pid in pids if alive(pid)] == []
        assert [stop["jobs_given_back"] for stop in service.events("worker.stopped")] == [0]
    with running(tmp_path / "data", port=free_port()) as again:
        again.environment.update(service.environment)
        Topic(again.client("sns"), topic.arn).publish("after")
        endpoint.wait(received=2)


def test_a_signal_to_the_whole_group_stops_it_as_well(tmp_path: Path) -> None:
    """Ctrl-C reaches every process of the terminal at once."""
    with running(tmp_path / "data", first=os.setpgrp) as service:
        pids = service.pids()
        os.killpg(service.process.pid, signal.SIGINT)
        assert service.process.wait() == 0
        assert [pid for pid in pids.values() if alive(pid)] == []
        assert "Traceback" not in service.said()


@pytest.mark.extended
def test_after_the_death_of_cns_up_it_can_be_started_at_once(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path / "data", port=port) as service:
        keys = dict(service.environment)
        queue = service.client("sqs").create_queue(QueueName="q")["QueueUrl"]
        service.client("sqs").send_message(QueueUrl=queue, MessageBody="kept")
        pids = service.pids()
        os.kill(pids["api"], signal.SIGSTOP)  # this process takes long to stop
        service.process.kill()
        again = start(service.data, port=port)
        try:
            wait_until(lambda: f"port {port} on 127.0.0.1 is taken; waiting" in again.said(), again.said)
            os.kill(pids["api"], signal.SIGCONT)
            again.wait_ready()
            again.environment.update(keys)
            (message,) = again.client("sqs").receive_message(QueueUrl=queue)["Messages"]
            assert message["Body"] == "kept"
            wait_until(lambda: not any(alive(pid) for pid in pids.values()))
        finally:
            again.stop()
