"""The commands: one function each, from the settings and what was typed to an exit code."""

from __future__ import annotations

import shutil
import signal
from argparse import Namespace
from collections.abc import Callable

from deploy.servers.cassandra import become_nodetool, cassandra_server, ring_node, single_node
from deploy.servers.failure import Failure
from deploy.servers.lock import alone
from deploy.servers.redis import redis_server
from deploy.servers.ring import present_ring, ring_up
from deploy.servers.server import Server, start
from deploy.servers.settings import Settings
from deploy.servers.software import require

EXIT_NOT_RUNNING = 3

SERVERS: dict[str, Callable[[Settings], Server]] = {
    "cassandra": lambda settings: cassandra_server(single_node(settings), settings),
    "redis": redis_server,
}
EXPORTS = {"cassandra": "export CNS_CASSANDRA={}", "redis": "export CNS_REDIS=redis://{}/0"}


def up(settings: Settings, options: Namespace) -> int:
    """Start what does not run yet, wait until all answers, print what to export."""
    names = options.names or list(SERVERS)
    with alone(settings.state):
        start([SERVERS[name](settings) for name in names])
    for name in names:
        print(EXPORTS[name].format(SERVERS[name](settings).address))
    return 0


def down(settings: Settings, options: Namespace) -> int:
    """Stop what runs; a ring's data go, those of the single node stay unless `--wipe` is said."""
    names = options.names or [*SERVERS, "ring"]
    with alone(settings.state):
        for name in names:
            if name == "ring":
                present_ring(settings).down()
                continue
            server = SERVERS[name](settings)
            server.stop()
            if options.wipe:
                shutil.rmtree(server.directory, ignore_errors=True)
    return 0


def status(settings: Settings, options: Namespace) -> int:
    """A line for each; the exit code says whether all of them answer."""
    names = options.names or list(SERVERS)
    servers = [SERVERS[name](settings) for name in names]
    servers += [] if options.names else present_ring(settings).servers
    ready = [server.is_ready() for server in servers]
    for server, is_ready in zip(servers, ready, strict=True):
        state = "paused" if server.daemon.is_paused() else "running" if is_ready else "not running"
        process = f"pid {server.daemon.pid()}  {server.daemon.memory_mib()} MiB" if server.is_running() else ""
        print(f"{server.name:<10} {server.address:<18} {state:<12} {process}".rstrip())
    return 0 if all(ready) else EXIT_NOT_RUNNING


def install(_settings: Settings, options: Namespace) -> int:
    """Have these on the machine; nothing is started."""
    require(*options.names)
    return 0


def ring(settings: Settings, options: Namespace) -> int:
    """Start a ring and print what to export, or end it and its data."""
    with alone(settings.state):
        if options.what == "down":
            present_ring(settings).down()
            return 0
        servers = ring_up(settings, options.nodes).servers
    print(EXPORTS["cassandra"].format(",".join(server.address for server in servers)))
    return 0


def kill(settings: Settings, options: Namespace) -> int:
    server = _hit(settings, options.victim, signal.SIGKILL)
    server.daemon.kill()  # returns when the process is gone
    return 0


def pause(settings: Settings, options: Namespace) -> int:
    _hit(settings, options.victim, signal.SIGSTOP)
    return 0


def resume(settings: Settings, options: Namespace) -> int:
    _hit(settings, options.victim, signal.SIGCONT)
    return 0


def restart(settings: Settings, options: Namespace) -> int:
    """Stop it if it runs, start it with the data it had, wait until it answers and its ring has it back."""
    with alone(settings.state):
        if options.victim.isdigit():
            present_ring(settings).restart(int(options.victim))
        else:
            server = _victim(settings, options.victim)
            server.stop()
            start([server])
    return 0


def nodetool(settings: Settings, options: Namespace) -> int:
    node = ring_node(settings, options.ring) if options.ring else single_node(settings)
    become_nodetool(node, settings, options.words)


def _hit(settings: Settings, name: str, number: signal.Signals) -> Server:
    server = _victim(settings, name)
    if not server.daemon.signal(number):
        raise Failure(f"{server.name}: is not running")
    return server


def _victim(settings: Settings, name: str) -> Server:
    """By its name, or by its number in the ring."""
    return present_ring(settings).node(int(name)) if name.isdigit() else SERVERS[name](settings)
