"""The commands, one function each: from settings and options to an exit code."""

from __future__ import annotations

import shutil
import signal
from argparse import Namespace
from collections.abc import Callable

from deploy.servers.cassandra import cassandra_server, exec_nodetool, ring_node, single_node
from deploy.servers.failure import Failure
from deploy.servers.lock import exclusive_lock
from deploy.servers.redis import redis_server
from deploy.servers.ring import present_ring, replace_node, ring_up
from deploy.servers.server import Server, start
from deploy.servers.settings import NODES_MAX, Settings
from deploy.servers.software import require

EXIT_NOT_RUNNING = 3

SERVERS: dict[str, Callable[[Settings], Server]] = {
    "cassandra": lambda settings: cassandra_server(single_node(settings), settings),
    "redis": redis_server,
}
EXPORTS = {"cassandra": "export CNS_CASSANDRA={}", "redis": "export CNS_REDIS=redis://{}/0"}


def up(settings: Settings, options: Namespace) -> int:
    """Start what does not run yet, wait until every server answers, print the variables to export."""
    names = options.names or list(SERVERS)
    with exclusive_lock(settings.state):
        start([SERVERS[name](settings) for name in names])
    for name in names:
        print(EXPORTS[name].format(SERVERS[name](settings).address))
    return 0


def down(settings: Settings, options: Namespace) -> int:
    """Stop what runs. A ring's data is deleted, the single node's only with `--wipe`."""
    names = options.names or [*SERVERS, "ring"]
    with exclusive_lock(settings.state):
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
    """Print a line per server; the exit code says whether all of them answer."""
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
    """Install missing programs; start nothing."""
    require(*options.names)
    return 0


def ring(settings: Settings, options: Namespace) -> int:
    """Start a ring and print the variables to export, or stop it and delete its data."""
    with exclusive_lock(settings.state):
        if options.what == "down":
            present_ring(settings).down()
            return 0
        sites = [site for site in options.sites for _ in range(options.nodes)]
        if len(sites) > NODES_MAX:
            raise Failure(f"ring: {len(sites)} nodes are more than {NODES_MAX}")
        servers = ring_up(settings, sites).servers
    print(EXPORTS["cassandra"].format(",".join(server.address for server in servers)))
    return 0


def kill(settings: Settings, options: Namespace) -> int:
    server = _send_signal(settings, options.target, signal.SIGKILL)
    server.daemon.kill()  # returns when the process is gone
    return 0


def pause(settings: Settings, options: Namespace) -> int:
    _send_signal(settings, options.target, signal.SIGSTOP)
    return 0


def resume(settings: Settings, options: Namespace) -> int:
    _send_signal(settings, options.target, signal.SIGCONT)
    return 0


def restart(settings: Settings, options: Namespace) -> int:
    """Stop a server if it runs, start it with its data, wait until it answers and its ring sees it."""
    with exclusive_lock(settings.state):
        if options.target.isdigit():
            present_ring(settings).restart(int(options.target))
        else:
            server = _named_server(settings, options.target)
            server.stop()
            start([server])
    return 0


def replace(settings: Settings, options: Namespace) -> int:
    """Start a node of the ring without the data it had; the others give it theirs."""
    with exclusive_lock(settings.state):
        replace_node(settings, options.target)
    return 0


def nodetool(settings: Settings, options: Namespace) -> int:
    node = ring_node(settings, options.ring) if options.ring else single_node(settings)
    exec_nodetool(node, settings, options.words)


def _send_signal(settings: Settings, name: str, number: signal.Signals) -> Server:
    server = _named_server(settings, name)
    if not server.daemon.signal(number):
        raise Failure(f"{server.name}: is not running")
    return server


def _named_server(settings: Settings, name: str) -> Server:
    """Return a server by its name, or by its number in the ring."""
    return present_ring(settings).node(int(name)) if name.isdigit() else SERVERS[name](settings)
