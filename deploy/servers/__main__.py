"""The command line. Lines for a shell to evaluate go to standard output, messages to standard error."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from deploy.servers import commands
from deploy.servers.cassandra import DATA_CENTRE
from deploy.servers.failure import Failure
from deploy.servers.server import print_message
from deploy.servers.settings import NODES_MAX, Settings, read_settings
from deploy.servers.software import PACKAGES

EXIT_FAILED = 1
RING_NODES = 3
"""The default size of a ring."""

TARGETS = [*commands.SERVERS, *map(str, range(1, NODES_MAX + 1))]
TARGET_COMMANDS = {
    "kill": (commands.kill, "end it without warning (SIGKILL)"),
    "pause": (commands.pause, "suspend it (SIGSTOP)"),
    "resume": (commands.resume, "continue a paused one"),
    "restart": (commands.restart, "stop it if it runs, and start it with its data"),
}
Command = Callable[[Settings, argparse.Namespace], int]


def main(words: list[str]) -> int:
    options = _parser().parse_args(words)
    command: Command = options.command
    try:
        return command(read_settings(os.environ), options)
    except Failure as failure:
        print_message(f"servers: {failure}")
        return EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m deploy.servers", description="Cassandra and Redis, no Docker.")
    parsers = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, text: str) -> argparse.ArgumentParser:
        added = parsers.add_parser(name, help=text)
        added.set_defaults(command=command)
        return added

    up = add("up", commands.up, "start what does not run, and print the variables to export")
    up.add_argument("names", nargs="*", choices=[[], *commands.SERVERS])
    down = add("down", commands.down, "stop what runs")
    down.add_argument("names", nargs="*", choices=[[], *commands.SERVERS, "ring"])
    down.add_argument("--wipe", action="store_true", help="delete their data as well")
    status = add("status", commands.status, "print what runs; exit code 3 if something does not")
    status.add_argument("names", nargs="*", choices=[[], *commands.SERVERS])
    install = add("install", commands.install, "install missing programs by Debian's packages")
    install.add_argument("names", nargs="+", choices=PACKAGES)
    ring = add("ring", commands.ring, "a ring of nodes beside the single one")
    ring.add_argument("what", choices=["up", "down"])
    ring.add_argument("nodes", nargs="?", type=int, choices=range(1, NODES_MAX + 1), default=RING_NODES)
    ring.add_argument(
        "--sites", nargs="+", metavar="DC", default=[DATA_CENTRE], help="data centres, of so many nodes each"
    )
    for name, (command, text) in TARGET_COMMANDS.items():
        add(name, command, text).add_argument(
            "target", choices=TARGETS, metavar="NODE", help="number of a node of the ring, or a name"
        )
    replace = add(
        "replace", commands.replace, "kill a node of the ring, delete its data, and let the others restore them"
    )
    replace.add_argument("target", type=int, choices=range(1, NODES_MAX + 1), metavar="NODE", help="its number")
    nodetool = add("nodetool", commands.nodetool, "Cassandra's own tool")
    nodetool.add_argument("--ring", type=int, choices=range(1, NODES_MAX + 1), help="connect to this node of the ring")
    nodetool.add_argument("words", nargs=argparse.REMAINDER)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
