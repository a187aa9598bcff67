"""Attributes as options of commands: NAME=VALUE; of messages also NAME:TYPE=VALUE."""

from __future__ import annotations

from typing import Annotated

import typer

from cns_cli.output import refuse

Attributes = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An attribute; repeatable.")]
Changes = Annotated[list[str], typer.Argument(metavar="NAME=VALUE…")]
MessageAttributes = Annotated[
    list[str] | None,
    typer.Option("--attribute", metavar="NAME[:TYPE]=VALUE", help="A message attribute; repeatable. TYPE is String."),
]


def read_attributes(words: list[str] | None, default_true: str = "") -> dict[str, str]:
    """Parse NAME=VALUE words. The attribute `default_true`, if named, is true unless it is given. Ends the command for
    a word without `=`."""
    given = {default_true: "true"} if default_true else {}
    for word in words or ():
        name, separator, value = word.partition("=")
        if not separator:
            refuse(f"{word!r} is not NAME=VALUE")
        given[name] = value
    return given


def read_message_attributes(words: list[str] | None) -> dict[str, tuple[str, str]]:
    """Parse words into type and value by name. Ends the command for another word."""
    found = {}
    for word in words or ():
        name, separator, value = word.partition("=")
        name, _, kind = name.partition(":")
        if not (separator and name):
            refuse(f"{word!r} is not NAME=VALUE or NAME:TYPE=VALUE")
        found[name] = (kind or "String", value)
    return found


def wire_attributes(words: list[str] | None) -> dict[str, dict[str, str]]:
    """The attributes in the form of the REST API. The value of a Binary one is base64."""
    return {
        name: {"dataType": kind, "binaryValue" if kind.partition(".")[0] == "Binary" else "stringValue": value}
        for name, (kind, value) in read_message_attributes(words).items()
    }
