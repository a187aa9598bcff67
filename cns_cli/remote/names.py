"""Names of queues and topics as arguments of commands. A shell completes them, by what the service lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import redirect_stderr
from io import StringIO
from threading import Thread
from typing import Annotated

import typer

from cns.client import Client
from cns_cli.remote.connection import Service
from cns_cli.remote.paging import pages

COMPLETION_S = 1.5
"""A person waits no longer for names."""


def _completer(read: Callable[[Client, str], Iterable[str]]) -> Callable[[typer.Context, str], list[str]]:
    """Return a function that completes a word, to nothing if the service refuses, is away or is slow."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        found: list[str] = []
        service = Service(*(ctx.params.get(option) or "" for option in ("profile", "url", "region")))
        asking = Thread(target=lambda: found.extend(service.run(lambda client: list(read(client, incomplete)))))
        asking.daemon = True  # the shell gets its answer though the service hangs
        with redirect_stderr(StringIO()):
            asking.start()
            asking.join(COMPLETION_S)
        return [name for name in found if name.startswith(incomplete)]

    return complete


complete_queue = _completer(lambda client, prefix: client.list_queues(prefix).queues)
complete_topic = _completer(
    lambda client, _: (arn.rpartition(":")[2] for page in pages(client.list_topics) for arn in page.topics)
)

QueueName = Annotated[str, typer.Argument(metavar="QUEUE", autocompletion=complete_queue)]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)]
