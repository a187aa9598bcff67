"""Message attributes as options of commands: NAME=VALUE, or NAME:TYPE=VALUE."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cns_common.errors import EXIT_USAGE

MessageAttributes = Annotated[
    list[str] | None,
    typer.Option("--attribute", metavar="NAME[:TYPE]=VALUE", help="A message attribute; repeatable. TYPE is String."),
]


def read_message_attributes(words: list[str] | None) -> dict[str, tuple[str, str]]:
    """Type and value by name. A word that is none ends the command."""
    found = {}
    for word in words or ():
        name, separator, value = word.partition("=")
        name, _, kind = name.partition(":")
        if not (separator and name):
            print(f"cns: {word!r} is not NAME=VALUE or NAME:TYPE=VALUE", file=sys.stderr)
            sys.exit(EXIT_USAGE)
        found[name] = (kind or "String", value)
    return found


def wire_attributes(words: list[str] | None) -> dict[str, dict[str, str]]:
    """As the REST API takes them; the value of a Binary one is base64."""
    return {
        name: {"dataType": kind, "binaryValue" if kind.partition(".")[0] == "Binary" else "stringValue": value}
        for name, (kind, value) in read_message_attributes(words).items()
    }
