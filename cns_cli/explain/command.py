"""`cns explain …`: the history of one message, from the service or from its data directory."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from cns_backend.explain import collect
from cns_backend.explain.collect import Question
from cns_backend.explain.gaps import EventDirectories
from cns_backend.explain.model import Explanation
from cns_cli.durations import duration_ms
from cns_cli.explain.render import render
from cns_cli.options import Data, Json
from cns_cli.output import print_json, refuse
from cns_cli.remote.connection import Profile, Region, Service, Url
from cns_cli.store_access import open_service_backend, require_store, run_command
from cns_common.arn import parse_arn
from cns_common.configuration.settings import load_settings
from cns_pipeline.paths import PipelinePaths

EXIT_UNKNOWN = 1
_MESSAGE_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def explain(
    message_id: str,
    topic: Annotated[str, typer.Option(metavar="ARN", help="Needed if no trace names the topic.")] = "",
    subscription: Annotated[str, typer.Option(metavar="ARN", help="This subscription only.")] = "",
    since: Annotated[str, typer.Option(metavar="AGO", help="Search events of the last 45m, 2h, 3d only.")] = "",
    events: Annotated[
        list[Path] | None, typer.Option(help="Directory of events; may be repeated. Default: the local one.")
    ] = None,
    json: Json = False,
    data: Data = None,
    profile: Profile = "",
    url: Url = "",
    region: Region = "",
) -> None:
    """Explain the history of a message: filters, each attempt with its answer, the next one, the outcome. With --url or
    --profile it asks the service, otherwise it reads the stores of this machine.

    Example: cns explain 8f14e45f-ceea-467f-9575-7f7cb7d3c2aa
    """
    options = ExplainOptions(message_id, topic, subscription, since, tuple(events or ()), data)
    question = _question(options)
    if not (url or profile):
        explanation = _found_here(options, question)
    elif topic or since or events:
        refuse("--topic, --since and --events are for the stores of this machine, not for --url and --profile")
    else:
        service = Service(profile, url, region)
        found = service.run(lambda client: client.explain_message(message_id, subscription=subscription))
        explanation = msgspec.convert(found, Explanation)
    if json:
        print_json([explanation])
    else:
        print(render(explanation))
    if not explanation.known:
        sys.exit(EXIT_UNKNOWN)


class ExplainOptions(NamedTuple):
    """The arguments of the command. `events`: directories of events instead of the local one."""

    message_id: str
    topic: str
    subscription: str
    since: str
    events: tuple[Path, ...]
    data: Path | None


def _found_here(options: ExplainOptions, question: Question) -> Explanation:
    async def run() -> Explanation:
        settings = load_settings(options.data)
        source = EventDirectories(
            directories=options.events or (settings.events_path,),
            written=settings.events == "on",
            shared=settings.store == "cassandra" and not options.events,
            tables=Path(str(PipelinePaths(settings.data / "pipeline").table)),
        )
        if settings.store == "embedded":
            require_store(settings, ", or the service with --url")
        async with open_service_backend(settings) as backend:
            return await collect.explain(backend, source, question)

    return run_command(run)


def _question(options: ExplainOptions) -> Question:
    if _MESSAGE_ID.fullmatch(options.message_id) is None:
        refuse(f"{options.message_id} is not a message id")
    for option, arn in (("topic", options.topic), ("subscription", options.subscription)):
        if arn and (parse_arn(arn) is None or not arn.isprintable()):
            refuse(f"--{option}={arn}: must be an ARN")
    for directory in options.events:
        if not directory.is_dir():
            refuse(f"--events={directory}: there is no such directory")
    return Question(options.message_id, options.topic, options.subscription, _ago_ms(options.since))


def _ago_ms(since: str) -> int:
    """Parse `90m`, `2h`, `3d`; 0 for no limit."""
    if not since:
        return 0
    ago_ms = duration_ms(since)
    if ago_ms is None:
        refuse(f"--since={since}: must be a number of seconds, minutes, hours or days: 90s, 45m, 2h, 3d")
    return ago_ms
