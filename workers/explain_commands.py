"""`cns explain …`: one message's life, from the running service or from its data directory."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from common.settings import load_settings
from workers.command_parts import parts_of
from workers.command_store import run_command
from workers.explaining.gathering import Question, explain
from workers.explaining.rendering import render
from workers.explaining.story import Story
from workers.explaining.unknowns import Events
from workers.pipeline.places import Places

EXIT_UNKNOWN = 1
EXIT_USAGE = 2
_AGO = re.compile(r"(\d+)([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


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
    settings = load_settings(asked.data)
    question = Question(asked.message_id, asked.topic, asked.subscription, _ago_ms(asked.since))
    events = Events(
        directories=asked.events or (settings.events_path,),
        written=settings.events == "on",
        shared=settings.store == "cassandra" and not asked.events,
        tables=Places(settings.data / "pipeline").table,
    )

    async def run() -> Story:
        async with parts_of(settings) as parts:
            return await explain(parts, events, question)

    story = run_command(run)
    print(msgspec.json.encode(story).decode() if as_json else render(story))
    if not story.known:
        sys.exit(EXIT_UNKNOWN)


def _ago_ms(since: str) -> int:
    """From `90m`, `2h`, `3d` ago; 0 for all there is."""
    if not since:
        return 0
    ago = _AGO.fullmatch(since)
    if ago is None:
        print(
            f"cns: --since={since}: must be so many seconds, minutes, hours or days: 90s, 45m, 2h, 3d", file=sys.stderr
        )
        sys.exit(EXIT_USAGE)
    return int(ago[1]) * _UNIT_MS[ago[2]]
