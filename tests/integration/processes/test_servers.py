"""The servers that tests share. Their tool starts missing servers, and stops only those that it started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from lab.harness import servers
from lab.harness.ports import free_port
from lab.harness.waiting import PATIENCE_S

pytestmark = pytest.mark.extended

NOTHING: Mapping[str, str] = {}


# -- the tool, on a Redis of its own ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tool:
    """`python -m deploy.servers` with a state directory and ports of its own."""

    state: Path
    port: int

    def __call__(
        self, *words: str, fds: tuple[int, ...] = (), environment: Mapping[str, str] = NOTHING
    ) -> subprocess.CompletedProcess[str]:
        own = {"CNS_SERVERS_DIR": str(self.state), "CNS_SERVERS_REDIS_PORT": str(self.port)}
        return subprocess.run(
            [sys.executable, "-m", "deploy.servers", *words],
            cwd=servers.ROOT,
            env={**os.environ, **own, **environment},
            pass_fds=fds,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    def pid(self) -> int:
        return int((self.state / "redis" / "pid").read_text().split()[0])

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port)


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Tool]:
    tool = Tool(tmp_path / "state", free_port())
    yield tool
    assert tool("down", "redis").returncode == 0


def test_up_prints_exports_and_keeps_running_servers(tool: Tool) -> None:
    first = tool("up", "redis")
    assert (first.returncode, first.stdout) == (0, f"export CNS_REDIS=redis://127.0.0.1:{tool.port}/0\n")
    pid = tool.pid()
    assert tool("up", "redis").stdout == first.stdout
    assert tool.pid() == pid
    assert tool("status", "redis").returncode == 0


def test_two_ups_at_once_start_one(tool: Tool) -> None:
    own = {**os.environ, "CNS_SERVERS_DIR": str(tool.state), "CNS_SERVERS_REDIS_PORT": str(tool.port)}
    command = [sys.executable, "-m", "deploy.servers", "up", "redis"]
    both = [
        subprocess.Popen(command, cwd=servers.ROOT, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    errors = [process.communicate(timeout=PATIENCE_S)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(errors) == [b"", b"redis: starting\n"]


def test_status_after_down(tool: Tool) -> None:
    tool("up", "redis")
    assert tool("down", "redis").returncode == 0
    result = tool("status", "redis")
    assert result.returncode == 3
    assert "not running" in result.stdout
    assert tool("down", "redis").returncode == 0


def test_a_server_keeps_neither_pipes_nor_session_of_its_caller(tool: Tool) -> None:
    """The pipe is at its end when the command ends, and the server has a session of its own."""
    ours, theirs = os.pipe()
    tool("up", "redis", fds=(theirs,))
    os.close(theirs)
    os.set_blocking(ours, False)
    assert os.read(ours, 1) == b""
    os.close(ours)
    assert os.getsid(tool.pid()) == tool.pid()


def test_a_recycled_pid_is_not_killed(tool: Tool) -> None:
    """The system may give a pid to another process."""
    tool("up", "redis")
    record = tool.state / "redis" / "pid"
    true_record = record.read_text()
    with subprocess.Popen(["sleep", "60"]) as bystander:
        record.write_text(f"{bystander.pid} {true_record.split()[1]}")
        assert tool("down", "redis").returncode == 0
        assert tool("kill", "redis").returncode == 1
        assert bystander.poll() is None
        bystander.kill()
    record.write_text(true_record)
    assert tool("status", "redis").returncode == 0


def test_up_resumes_a_paused_server(tool: Tool) -> None:
    tool("up", "redis")
    assert tool("pause", "redis").returncode == 0
    assert "paused" in tool("status", "redis").stdout
    assert tool("up", "redis").returncode == 0
    with tool.client() as client:
        assert client.ping()


def test_a_killed_redis_restarts_empty(tool: Tool) -> None:
    tool("up", "redis")
    with tool.client() as client:
        client.set("seen", 1)
        assert (client.config_get("save"), client.config_get("appendonly")) == ({"save": ""}, {"appendonly": "no"})
    assert tool("kill", "redis").returncode == 0
    assert tool("status", "redis").returncode == 3
    assert tool("restart", "redis").returncode == 0
    with tool.client() as client:
        assert client.dbsize() == 0


# -- reasons why a server does not start: a line, perhaps the end of its log, and exit code 1 --------------------------


def test_a_port_of_another_process(tool: Tool) -> None:
    with socket.create_server(("127.0.0.1", tool.port)):
        result = tool("up", "redis")
    taken = f"port {tool.port} of 127.0.0.1 is taken by another process: set CNS_SERVERS_REDIS_PORT"
    assert (result.returncode, result.stdout, result.stderr) == (1, "", f"servers: redis: {taken}\n")


def test_a_port_changed_while_the_server_runs(tool: Tool) -> None:
    tool("up", "redis")
    port = str(free_port())
    result = tool("up", "redis", environment={"CNS_SERVERS_REDIS_PORT": port})
    assert (result.returncode, result.stdout) == (1, "")
    assert f"redis: runs on 127.0.0.1:{tool.port}, not on 127.0.0.1:{port}: stop it with `down` first" in result.stderr
    assert tool("status", "redis", environment={"CNS_SERVERS_REDIS_PORT": port}).returncode == 3


def test_a_node_that_ends_while_starting(tool: Tool) -> None:
    result = tool(
        "up", "cassandra", environment={"CNS_SERVERS_HEAP": "1K", "CNS_SERVERS_CASSANDRA_PORT": str(free_port())}
    )
    assert result.returncode == 1
    assert "cassandra: ended while starting\n--- " in result.stderr
    assert "Too small" in result.stderr


def test_a_package_that_is_missing(tool: Tool) -> None:
    result = tool("up", "redis", environment={"PATH": "/nowhere"})
    text = "servers: missing on this machine: install redis-server, or let root run this command on Debian\n"
    assert (result.returncode, result.stderr) == (1, text)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CNS_SERVERS_REDIS_PORT", "redis"),
        ("CNS_SERVERS_REDIS_PORT", "80"),
        ("CNS_SERVERS_RING_PORT", "65536"),
        ("CNS_SERVERS_COMMIT_LOG", "never"),
    ],
)
def test_a_wrong_setting(tool: Tool, variable: str, value: str) -> None:
    result = tool("status", "redis", environment={variable: value})
    assert result.returncode == 1
    assert result.stderr.startswith(f"servers: {variable} is '{value}'; it may be ")


def test_signals_to_a_stopped_server_fail(tool: Tool) -> None:
    for name in ("kill", "pause", "resume"):
        result = tool(name, "redis")
        assert (result.returncode, result.stderr) == (1, "servers: redis: is not running\n")
    assert "there is no node 1" in tool("kill", "1").stderr
