"""`cns explain …`: one message's life, from the running service or from its data directory."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, NamedTuple, NoReturn

import msgspec
import typer

from cns_cli.durations import span_ms
from cns_cli.explain import collect
from cns_cli.explain.collect import Question
from cns_cli.explain.gaps import Events
from cns_cli.explain.model import Story
from cns_cli.explain.render import render
from cns_cli.options import Data
from cns_cli.parts import parts_of
from cns_cli.store import run_command
from cns_common.arn import parse_arn
from cns_common.configuration.settings import load_settings
from cns_pipeline.paths import Places

EXIT_UNKNOWN = 1
EXIT_USAGE = 2
_MESSAGE_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def explain(
    message_id: str,
    topic: Annotated[str, typer.Option(metavar="ARN", help="Where nothing else says it.")] = "",
    subscription: Annotated[str, typer.Option(metavar="ARN", help="Of this one only.")] = "",
    since: Annotated[str, typer.Option(metavar="AGO", help="Look at events of the last 45m, 2h, 3d only.")] = "",
    events: Annotated[
        list[Path] | None, typer.Option(help="Where events lie; several. [default: where this process would write]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All that is known, as JSON.")] = False,
    data: Data = None,
) -> None:
    """Tell one message's life: accepted, filtered, each attempt and its answer, the next one, the end."""
    show(Asked(message_id, topic, subscription, since, tuple(events or ()), data), as_json=as_json)


class Asked(NamedTuple):
    """The command's words. `events`: directories of events, instead of this process's own."""

    message_id: str
    topic: str
    subscription: str
    since: str
    events: tuple[Path, ...]
    data: Path | None


def show(asked: Asked, *, as_json: bool) -> None:
    """Print what is known of a message; it ends with 1 when that is nothing."""
    question = _question(asked)

    async def run() -> Story:
        settings = load_settings(asked.data)
        events = Events(
            directories=asked.events or (settings.events_path,),
            written=settings.events == "on",
            shared=settings.store == "cassandra" and not asked.events,
            tables=Places(settings.data / "pipeline").table,
        )
        async with parts_of(settings) as parts:
            return await collect.explain(parts, events, question)

    story = run_command(run)
    print(msgspec.json.encode(story).decode() if as_json else render(story))
    if not story.known:
        sys.exit(EXIT_UNKNOWN)


def _question(asked: Asked) -> Question:
    if _MESSAGE_ID.fullmatch(asked.message_id) is None:
        _refuse(f"{asked.message_id} is no message id")
    for option, arn in (("topic", asked.topic), ("subscription", asked.subscription)):
        if arn and (parse_arn(arn) is None or not arn.isprintable()):
            _refuse(f"--{option}={arn}: must be an ARN")
    for directory in asked.events:
        if not directory.is_dir():
            _refuse(f"--events={directory}: there is no such directory")
    return Question(asked.message_id, asked.topic, asked.subscription, _ago_ms(asked.since))


def _ago_ms(since: str) -> int:
    """From `90m`, `2h`, `3d` ago; 0 for all there is."""
    if not since:
        return 0
    ago_ms = span_ms(since)
    if ago_ms is None:
        _refuse(f"--since={since}: must be so many seconds, minutes, hours or days: 90s, 45m, 2h, 3d")
    return ago_ms


def _refuse(reason: str) -> NoReturn:
    print(f"cns: {reason}", file=sys.stderr)
    sys.exit(EXIT_USAGE)
