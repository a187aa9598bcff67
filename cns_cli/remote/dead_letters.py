"""`cns dead-letters …`: dead-letter queues, the causes of their messages, and redrives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from cns.client import Client
from cns.client.dead_letters import DeadLetter, DeadLetterQueue, Redrive
from cns_cli.options import Json
from cns_cli.output import print_items, print_value, refuse
from cns_cli.remote.connection import EXIT_REFUSED, Service, with_service
from cns_cli.remote.names import QueueName
from cns_cli.remote.paging import first_messages, pages
from cns_cli.remote.redrive import redrive

PAGE = 100
ARNS_SHOWN_MAX = 3
_RUNNING = "RUNNING"

app = typer.Typer(help="Dead-letter queues, over the REST API.", no_args_is_help=True, add_completion=False)
app.command("redrive")(redrive)


@app.command("list")
@with_service
def list_queues(service: Service, json: Json = False) -> None:
    """List dead-letter queues: messages, age of the oldest in seconds, and the queues and subscriptions that use them.

    Example: cns dead-letters list
    """
    print_items(
        service.run(_all_queues), ("queue", "visible", "in flight", "oldest s", "from"), _queue_cells, json=json
    )


@app.command("show")
@with_service
def show(
    service: Service,
    name: QueueName,
    n: Annotated[int, typer.Option("-n", min=1, help="The maximum of messages.")] = 10,
    json: Json = False,
) -> None:
    """Show the messages of a dead-letter queue: origin and cause of each, without leasing them.

    Example: cns dead-letters show dead
    """
    found = service.run(lambda client: list(_letters(client, name, n)))
    print_items(found, ("message", "cause", "from", "body"), _letter_cells, json=json)


@app.command("redrives")
@with_service
def redrives(service: Service, name: QueueName, json: Json = False) -> None:
    """List the last redrives from a dead-letter queue, the newest first. Example: cns dead-letters redrives dead"""
    found = service.run(lambda client: client.redrives(name).redrives)
    print_items(
        found,
        ("state", "moved", "to move", "to"),
        lambda one: (one.status.lower(), one.moved, one.to_move or "-", one.destination_arn or "-"),
        json=json,
    )


@app.command("cancel")
@with_service
def cancel(service: Service, name: QueueName, json: Json = False) -> None:
    """Cancel the running redrive from a dead-letter queue. Exit code 1 if none runs. Moved messages stay moved.

    Example: cns dead-letters cancel dead
    """

    def work(client: Client) -> Redrive | None:
        running = next((one for one in client.redrives(name).redrives if one.status == _RUNNING and one.handle), None)
        return client.cancel_redrive(name, running.handle) if running and running.handle else None

    cancelled = service.run(work)
    if cancelled is None:
        refuse(f"no redrive from {name} is running", EXIT_REFUSED)
    print_value(cancelled, f"cancelling: {cancelled.moved} moved", json=json)


def _all_queues(client: Client) -> list[DeadLetterQueue]:
    """Return the dead-letter queues of all pages without duplicates, with all their sources."""
    found: dict[str, DeadLetterQueue] = {}
    for page in pages(client.dead_letter_queues):
        for one in page.dead_letter_queues:
            known = found.get(one.arn)
            found[one.arn] = one if known is None else _joined(known, one)
    return [found[arn] for arn in sorted(found)]


def _joined(known: DeadLetterQueue, later: DeadLetterQueue) -> DeadLetterQueue:
    return msgspec.structs.replace(
        later, queues=known.queues + later.queues, subscriptions=known.subscriptions + later.subscriptions
    )


def _queue_cells(one: DeadLetterQueue) -> tuple[object, ...]:
    sources = one.queues + [":".join(arn.split(":")[-2:]) for arn in one.subscriptions]
    shown = ", ".join(sources[:ARNS_SHOWN_MAX])
    more = len(sources) - ARNS_SHOWN_MAX
    shown += f" and {more} more" if more > 0 else ""
    if one.depth is None:
        return one.name, "-", "-", "-", shown
    oldest = one.depth.oldest_age_seconds
    return one.name, one.depth.visible, one.depth.in_flight, "-" if oldest is None else oldest, shown


def _letter_cells(one: DeadLetter) -> list[str]:
    return [" ".join(cell.split()) for cell in (one.message_id, one.cause or "-", one.source_arn or "-", one.body)]


def _letters(client: Client, name: str, n: int) -> Iterator[DeadLetter]:
    return first_messages(lambda after, limit: client.dead_letters(name, after=after, limit=limit), n, PAGE)
