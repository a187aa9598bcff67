"""Redis as a cache: it writes nothing to disk."""

from __future__ import annotations

from deploy.servers.server import Server
from deploy.servers.settings import LOOPBACK, Settings
from deploy.servers.software import require

START_LIMIT_S = 20.0


def redis_server(settings: Settings) -> Server:
    directory = settings.state / "redis"

    def command() -> list[str]:
        require("redis")
        listen = ["--port", str(settings.redis_port), "--bind", LOOPBACK]
        in_memory = ["--save", "", "--appendonly", "no", "--dir", str(directory)]
        return ["redis-server", *listen, *in_memory, "--daemonize", "no"]

    return Server(
        name="redis",
        directory=directory,
        listens=((LOOPBACK, settings.redis_port),),
        port_variable="CNS_SERVERS_REDIS_PORT",
        question=b"PING\r\n",
        answer=b"+PONG\r\n",
        start_limit_s=START_LIMIT_S,
        command=command,
    )
