"""`cns outbox …`: what was to leave by ways that are not set up."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from cns.delivery.envelope import timestamp_text
from cns.delivery.outbox import OutboxItem
from cns.stores.contract import OutboxStore
from cns.stores.embedded import EmbeddedOutboxStore
from cns_cli.options import Data
from cns_cli.store import embedded_store, run_command
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings, load_settings

LINE_CHARS_MAX = 60
Result = TypeVar("Result")

app = typer.Typer(help="What was to leave by ways that are not set up.", no_args_is_help=True, add_completion=False)


@app.command("list")
def outbox_list(
    account: Annotated[str, typer.Option(help="Of this account only.")] = "",
    protocol: Annotated[str, typer.Option(help="Of this protocol only: sms, email, lambda …")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 20,
    data: Data = None,
) -> None:
    """Print the newest, a line each."""
    items = _run(data, lambda store: store.newest(account, protocol, "", limit))
    if not items:
        that = " that match" if account or protocol else ""
        print(f"cns: no messages{that} in the outbox", file=sys.stderr)
    for item in items:
        print(item.id, timestamp_text(item.at_ms), item.protocol, item.destination, _beginning(item), sep="  ")


@app.command("show")
def outbox_show(item_id: Annotated[str, typer.Argument(metavar="ID")], data: Data = None) -> None:
    """Print one: to whom, by what, and what the endpoint would have got."""
    item = _run(data, lambda store: store.get(item_id))
    if item is None:
        sys.exit(f"cns: there is no {item_id} in the outbox")
    facts = {
        "id": item.id,
        "time": timestamp_text(item.at_ms),
        "account": item.account,
        "region": item.region,
        "protocol": item.protocol,
        "destination": item.destination,
        "topic": item.topic_arn,
        "subscription": item.subscription_arn,
        "message id": item.message_id,
        "from": item.sender,
        "subject": item.subject,
    }
    for name, fact in facts.items():
        if fact:
            print(f"{name}: {fact}")
    for name, (data_type, text) in item.attributes.items():
        print(f"attribute {name} ({data_type}): {text}")
    print()
    print(item.body, end="" if item.body.endswith("\n") else "\n")


def _beginning(item: OutboxItem) -> str:
    """Of one line; what could steer a terminal is not shown."""
    text = (item.subject or item.message or item.body).partition("\n")[0]
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= LINE_CHARS_MAX else f"{line[: LINE_CHARS_MAX - 1]}…"


def _run(data: Path | None, work: Callable[[OutboxStore], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with _store(load_settings(data)) as store:
            return await work(store)

    return run_command(run)


@asynccontextmanager
async def _store(settings: Settings) -> AsyncIterator[OutboxStore]:
    if settings.store == "cassandra":
        from cns.stores.cassandra import CassandraOutboxStore  # with drivers that only this form has installed
        from cns_backend.cluster import open_session

        async with open_session(settings) as (cassandra, _):
            yield CassandraOutboxStore(cassandra)
        return
    async with embedded_store(settings, Clock(), OutboxStore, "outbox", EmbeddedOutboxStore) as store:
        yield store
