"""`cns outbox …`: deliveries kept because no relay or gateway is configured for their protocol."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cns.delivery.envelope import timestamp_text
from cns.delivery.outbox import OutboxItem
from cns.stores.contract import OutboxStore
from cns.stores.embedded import EmbeddedOutboxStore
from cns_cli.options import Data, Json
from cns_cli.output import print_json
from cns_cli.store_access import StoreSpec, run_on_store

LINE_CHARS_MAX = 60
OUTBOX = StoreSpec(OutboxStore, "outbox", EmbeddedOutboxStore, "cns.stores.cassandra:CassandraOutboxStore")

app = typer.Typer(help="Deliveries without a configured relay or gateway.", no_args_is_help=True, add_completion=False)


@app.command("list")
def outbox_list(
    account: Annotated[str, typer.Option(help="Deliveries of this account only.")] = "",
    protocol: Annotated[str, typer.Option(help="Deliveries of this protocol only: sms, email, lambda …")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="The number of deliveries.")] = 20,
    data: Data = None,
    json: Json = False,
) -> None:
    """Print the newest deliveries, one per line."""
    items = run_on_store(data, OUTBOX, lambda store: store.newest(account, protocol, "", limit))
    if not items:
        matching = " that match" if account or protocol else ""
        print(f"cns: no messages{matching} in the outbox", file=sys.stderr)
    if json:
        print_json(map(_described, items))
        return
    for item in items:
        print(item.id, timestamp_text(item.at_ms), item.protocol, item.destination, _beginning(item), sep="  ")


@app.command("show")
def outbox_show(item_id: Annotated[str, typer.Argument(metavar="ID")], data: Data = None, json: Json = False) -> None:
    """Print one delivery: destination, protocol, and the content for the endpoint."""
    item = run_on_store(data, OUTBOX, lambda store: store.get(item_id))
    if item is None:
        sys.exit(f"cns: there is no {item_id} in the outbox")
    if json:
        print_json([{**_described(item), "body": item.body}])
        return
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


def _described(item: OutboxItem) -> dict[str, object]:
    """The members of a delivery without its body, which may be large."""
    attributes = {name: {"dataType": kind, "stringValue": text} for name, (kind, text) in item.attributes.items()}
    return {
        "id": item.id,
        "at": item.at_ms,
        "account": item.account,
        "region": item.region,
        "protocol": item.protocol,
        "destination": item.destination,
        "messageId": item.message_id,
        "topicArn": item.topic_arn or None,
        "subscriptionArn": item.subscription_arn or None,
        "sender": item.sender or None,
        "subject": item.subject,
        "message": item.message,
        "attributes": attributes,
    }


def _beginning(item: OutboxItem) -> str:
    """The first line, shortened, with spaces for control characters, which could control a terminal."""
    text = (item.subject or item.message or item.body).partition("\n")[0]
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= LINE_CHARS_MAX else f"{line[: LINE_CHARS_MAX - 1]}…"
