"""The servers that tests share are real and answer; their tool starts what is missing and ends only what it started."""

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
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy

from tests import servers
from tests.ports import free_port

pytestmark = pytest.mark.extended

INCREASE = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
NOTHING: Mapping[str, str] = {}


def test_cassandra_answers_a_query() -> None:
    host, port = servers.cassandra_address()
    keyspace = servers.fresh_keyspace()
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy())
    with Cluster([host], port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}) as cluster:
        session = cluster.connect()
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {replication}")
        try:
            session.execute(f"CREATE TABLE {keyspace}.facts (name text PRIMARY KEY, value int)")
            insert = session.prepare(f"INSERT INTO {keyspace}.facts (name, value) VALUES (?, ?) IF NOT EXISTS")
            assert [session.execute(insert, ("answer", value)).was_applied for value in (42, 43)] == [True, False]
            assert [tuple(row) for row in session.execute(f"SELECT name, value FROM {keyspace}.facts")] == [
                ("answer", 42)
            ]
        finally:
            session.execute(f"DROP KEYSPACE {keyspace}")


def test_redis_runs_a_script_and_a_prefix_is_flushed() -> None:
    mine, other = servers.fresh_prefix(), servers.fresh_prefix()
    with redis.Redis.from_url(servers.redis_url()) as client:
        for prefix in (mine, other):
            assert client.eval(INCREASE, 1, f"{prefix}count", 2) == 2
        servers.flush_prefix(client, mine)
        assert client.eval(INCREASE, 1, f"{mine}count", 3) == 3
        assert client.eval(INCREASE, 1, f"{other}count", 3) == 5
        for prefix in (mine, other):
            servers.flush_prefix(client, prefix)
        assert client.exists(f"{mine}count", f"{other}count") == 0


@pytest.mark.parametrize("name", servers.VARIABLES)
def test_an_address_where_nobody_answers_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(servers.VARIABLES[name], f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(AssertionError, match=f"no {name} at 127.0.0.1:"):
        servers._running.__wrapped__(name)


# -- the tool, on a Redis of its own ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tool:
    """`python -m deploy.servers` with a state directory and ports of its own."""

    state: Path
    port: int

    def __call__(
        self, *words: str, fds: tuple[int, ...] = (), more: Mapping[str, str] = NOTHING
    ) -> subprocess.CompletedProcess[str]:
        own = {"CNS_SERVERS_DIR": str(self.state), "CNS_SERVERS_REDIS_PORT": str(self.port)}
        return subprocess.run(
            [sys.executable, "-m", "deploy.servers", *words],
            cwd=servers.ROOT,
            env={**os.environ, **own, **more},
            pass_fds=fds,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
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


def test_up_prints_what_to_export_and_keeps_what_runs(tool: Tool) -> None:
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
    said = [process.communicate(timeout=60)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(said) == [b"", b"redis: starting\n"]


def test_down_ends_it_and_status_says_so(tool: Tool) -> None:
    tool("up", "redis")
    assert tool("down", "redis").returncode == 0
    done = tool("status", "redis")
    assert done.returncode == 3
    assert "not running" in done.stdout
    assert tool("down", "redis").returncode == 0


def test_it_holds_nothing_of_its_caller(tool: Tool) -> None:
    """Neither its session nor its pipes: the pipe is at its end once the command is."""
    ours, theirs = os.pipe()
    tool("up", "redis", fds=(theirs,))
    os.close(theirs)
    os.set_blocking(ours, False)
    assert os.read(ours, 1) == b""
    os.close(ours)
    assert os.getsid(tool.pid()) == tool.pid()


def test_a_record_of_another_process_ends_nothing(tool: Tool) -> None:
    """A pid comes round again."""
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


def test_one_that_was_paused_and_forgotten_is_woken(tool: Tool) -> None:
    tool("up", "redis")
    assert tool("pause", "redis").returncode == 0
    assert "paused" in tool("status", "redis").stdout
    assert tool("up", "redis").returncode == 0
    with tool.client() as client:
        assert client.ping()


def test_a_killed_redis_comes_back_empty(tool: Tool) -> None:
    tool("up", "redis")
    with tool.client() as client:
        client.set("seen", 1)
        assert (client.config_get("save"), client.config_get("appendonly")) == ({"save": ""}, {"appendonly": "no"})
    assert tool("kill", "redis").returncode == 0
    assert tool("status", "redis").returncode == 3
    assert tool("restart", "redis").returncode == 0
    with tool.client() as client:
        assert client.dbsize() == 0


# -- what keeps a server from starting: one line, where a log knows more its end, and exit code 1 ----------------------


def test_a_port_that_somebody_else_has(tool: Tool) -> None:
    with socket.create_server(("127.0.0.1", tool.port)):
        done = tool("up", "redis")
    taken = f"port {tool.port} of 127.0.0.1 is taken by another process: set CNS_SERVERS_REDIS_PORT"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"servers: redis: {taken}\n")


def test_a_port_that_changed_while_it_ran(tool: Tool) -> None:
    tool("up", "redis")
    port = str(free_port())
    done = tool("up", "redis", more={"CNS_SERVERS_REDIS_PORT": port})
    assert (done.returncode, done.stdout) == (1, "")
    assert f"redis: runs on 127.0.0.1:{tool.port}, not on 127.0.0.1:{port}: stop it with `down` first" in done.stderr
    assert tool("status", "redis", more={"CNS_SERVERS_REDIS_PORT": port}).returncode == 3


def test_a_node_that_ends_while_starting(tool: Tool) -> None:
    done = tool("up", "cassandra", more={"CNS_SERVERS_HEAP": "1K", "CNS_SERVERS_CASSANDRA_PORT": str(free_port())})
    assert done.returncode == 1
    assert "cassandra: ended while starting\n--- " in done.stderr
    assert "Too small" in done.stderr


def test_a_package_that_is_missing(tool: Tool) -> None:
    done = tool("up", "redis", more={"PATH": "/nowhere"})
    text = "servers: missing on this machine: install redis-server, or let root run this command on Debian\n"
    assert (done.returncode, done.stderr) == (1, text)


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
    done = tool("status", "redis", more={variable: value})
    assert done.returncode == 1
    assert done.stderr.startswith(f"servers: {variable} is '{value}'; it may be ")


def test_signals_reach_only_what_runs(tool: Tool) -> None:
    for name in ("kill", "pause", "resume"):
        done = tool(name, "redis")
        assert (done.returncode, done.stderr) == (1, "servers: redis: is not running\n")
    assert "there is no node 1" in tool("kill", "1").stderr
