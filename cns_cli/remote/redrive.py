"""`cns queue redrive` and `cns dead-letters redrive`: move the messages of a dead-letter queue back."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from cns.client import Client
from cns.client.dead_letters import Redrive
from cns_cli.options import Json
from cns_cli.output import print_value, refuse
from cns_cli.progress import open_steps
from cns_cli.remote.connection import EXIT_REFUSED, Service, with_service
from cns_cli.remote.names import QueueName

POLL_INTERVAL_S = 0.5
_ENDED = ("COMPLETED", "CANCELLED", "FAILED")


@with_service
def redrive(
    service: Service,
    name: QueueName,
    to: Annotated[str, typer.Option(help="ARN of another queue. Default: the queue each message came from.")] = "",
    rate: Annotated[int | None, typer.Option(min=1, max=500, help="The maximum of messages per second.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the end, with a progress bar.")] = True,
    json: Json = False,
) -> None:
    """Move the messages of a dead-letter queue back, and wait for the end."""

    def work(client: Client) -> Redrive:
        started = client.redrive(name, destination_arn=to, messages_per_second=rate)
        return _ended(client, name, started) if wait else started

    done = service.run(work)
    print_value(done, f"{done.status.lower()}: {done.moved} moved", json=json)
    if done.status == "FAILED":
        refuse(done.failure or "the redrive failed", EXIT_REFUSED)


def _ended(client: Client, name: str, started: Redrive) -> Redrive:
    """Wait for the end of a redrive. An ended redrive has no handle: it is the newest."""
    pause = threading.Event()
    with open_steps(f"redriving {name}") as steps:
        while True:
            found = client.redrives(name).redrives
            current = next((one for one in found if one.handle == started.handle), found[0] if found else started)
            steps.reach(current.moved, current.moved + (current.to_move or 0) or 1)
            if current.status in _ENDED:
                return current
            pause.wait(POLL_INTERVAL_S)
