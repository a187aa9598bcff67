"""The process of our Cassandra image: one node on the container's address, with its data in a volume."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from deploy.servers.cassandra import Node, node_command
from deploy.servers.failure import Failure
from deploy.servers.settings import Settings

CQL_PORT = 9042
DATA = Path("/var/lib/cassandra")
SOFTWARE = Path("/opt/cassandra")


def main() -> None:
    host = socket.gethostbyname(socket.gethostname())
    node = Node(name="cassandra", number=1, hosts=(host,), port=CQL_PORT, directory=DATA)
    settings = Settings(state=DATA, software=SOFTWARE, heap=os.environ.get("MAX_HEAP_SIZE") or Settings().heap)
    try:
        command = node_command(node, settings, record_classes=False)
    except Failure as failure:
        sys.exit(f"cassandra: {failure}")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
