"""`cns queue …`: queues and their messages."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import msgspec
import typer
from msgspec.structs import replace

from cns.client import Client
from cns.client.values import BrowsedMessage, ReceivedMessage, Statistics
from cns.delivery.envelope import timestamp_text
from cns_cli.options import Json, Yes, confirm
from cns_cli.output import print_attributes, print_json, print_table, print_value, refuse
from cns_cli.remote.attributes import Attributes, Changes, MessageAttributes, read_attributes, wire_attributes
from cns_cli.remote.connection import EXIT_REFUSED, Service, with_service
from cns_cli.remote.names import QueueName, complete_queue
from cns_cli.remote.paging import first_messages, pages
from cns_cli.remote.redrive import redrive

app = typer.Typer(help="Queues and their messages, over the REST API.", no_args_is_help=True, add_completion=False)

TAIL_INTERVAL_S = 1.0
TAIL_PAGE = 100
app.command("redrive")(redrive)
_BROWSED = f"{'sent':<24}  {'state':<8}  {'receives':<8}  {'message id':<36}  body"
Unwrap = Annotated[bool, typer.Option("--unwrap", help="Print what a topic sent without its envelope.")]


class _Envelope(msgspec.Struct, rename="pascal"):
    topic_arn: str
    message: str


@app.command("list")
@with_service
def list_queues(
    service: Service,
    prefix: Annotated[str, typer.Argument(help="Only names that begin with this.", autocompletion=complete_queue)] = "",
    counts: Annotated[bool, typer.Option("--counts", help="Add the numbers of messages.")] = False,
    json: Json = False,
) -> None:
    """List queues. Example: cns queue list orders- --counts"""

    def work(client: Client) -> None:
        names = _names(client, prefix)
        if counts:
            found = [client.queue_statistics(name) for name in names]
            rows = [(name, one.visible, one.in_flight, one.delayed) for name, one in zip(names, found, strict=True)]
            if json:
                print_json(dict(zip(("queue", "visible", "inFlight", "delayed"), row, strict=True)) for row in rows)
            else:
                print_table(("queue", "visible", "in flight", "delayed"), rows)
        elif json:
            print_json({"queue": name} for name in names)
        else:
            for name in names:
                print(name)

    service.run(work)


@app.command("create")
@with_service
def create(
    service: Service,
    name: QueueName,
    attributes: Attributes = None,
    json: Json = False,
) -> None:
    """Create a queue and print its URL. Example: cns queue create orders --set VisibilityTimeout=60"""
    given = read_attributes(attributes, "FifoQueue" if name.endswith(".fifo") else "")
    made = service.run(lambda client: client.create_queue(name, given))
    print_value(made, made.url, json=json)


@app.command("show")
@with_service
def show(service: Service, name: QueueName, json: Json = False) -> None:
    """Print a queue's attributes. Example: cns queue show orders --json"""
    print_attributes(service.run(lambda client: client.show_queue(name)), json=json)


@app.command("statistics")
@with_service
def statistics(
    service: Service,
    name: QueueName,
    by_hour: Annotated[bool, typer.Option("--by-hour", help="By hour, over 14 days (engine pipes).")] = False,
    json: Json = False,
) -> None:
    """Count a queue's messages; on the engine pipes also pushed and popped messages, in total and per second.

    Example: cns queue statistics orders --by-hour
    """
    found = service.run(lambda client: client.queue_statistics(name, by_hour=by_hour))
    if json:
        print_json([found])
    elif not by_hour:
        print_table(("measure", "value"), _measures(found))
    elif found.hours is None:
        refuse(f"the engine of {name} keeps no statistics by hour", EXIT_REFUSED)
    else:
        rows = [(_hour_text(one.hour), one.pushed, one.popped, one.depth) for one in found.hours]
        print_table(("hour (UTC)", "pushed", "popped", "depth"), rows)


@app.command("set")
@with_service
def set_attributes(
    service: Service,
    name: QueueName,
    attributes: Changes,
    json: Json = False,
) -> None:
    """Set attributes. Example: cns queue set orders VisibilityTimeout=60"""
    given = read_attributes(attributes)
    changed = service.run(lambda client: client.change_queue(name, given))
    print_value(changed, "", json=json)


@app.command("delete")
@with_service
def delete(service: Service, name: QueueName, yes: Yes = False, json: Json = False) -> None:
    """Delete a queue and its messages; asks at a terminal. Example: cns queue delete orders"""
    confirm(f"Delete the queue {name} and its messages?", yes=yes)
    service.run(lambda client: client.delete_queue(name))
    print_value({"deleted": name}, "", json=json)


@app.command("purge")
@with_service
def purge(service: Service, name: QueueName, yes: Yes = False, json: Json = False) -> None:
    """Delete all messages of a queue; asks at a terminal. Example: cns queue purge orders"""
    confirm(f"Delete all messages of the queue {name}?", yes=yes)
    service.run(lambda client: client.purge_queue(name))
    print_value({"purged": name}, "", json=json)


@app.command("send")
@with_service
def send(
    service: Service,
    name: QueueName,
    text: Annotated[str, typer.Argument(help="The message; - reads one message per line from standard input.")],
    delay: Annotated[int | None, typer.Option(help="Seconds until it is visible.")] = None,
    group: Annotated[str | None, typer.Option(help="Message group (FIFO and fair queues).")] = None,
    deduplication: Annotated[str | None, typer.Option(help="Deduplication id (FIFO queues).")] = None,
    attribute: MessageAttributes = None,
    json: Json = False,
) -> None:
    """Send messages and print their ids. Example: cns queue send orders 'hello' --attribute kind=new"""
    attributes = wire_attributes(attribute)

    def work(client: Client) -> None:
        for one in _texts(text):
            sent = client.put_message(
                name,
                one,
                attributes=attributes,
                delay_seconds=delay,
                group_id=group,
                deduplication_id=deduplication,
            )
            if json:
                print_json([sent])
            else:
                print(sent.message_id, flush=True)

    service.run(work)


@app.command("receive")
@with_service
def receive(
    service: Service,
    name: QueueName,
    n: Annotated[int, typer.Option("-n", min=1, help="The maximum of messages.")] = 1,
    wait: Annotated[int, typer.Option(min=0, max=20, help="Seconds to wait for a message.")] = 0,
    lease: Annotated[int | None, typer.Option(help="Seconds for which a message is hidden.")] = None,
    acknowledge: Annotated[bool, typer.Option("--ack", help="Delete each message after it is printed.")] = False,
    json: Json = False,
) -> None:
    """Receive messages and print them. Example: cns queue receive orders -n 10 --wait 5 --ack"""

    def work(client: Client) -> None:
        for _ in range(n):
            message = client.next_message(name, lease_seconds=lease, wait_seconds=wait)
            if message is None:
                return
            _print_received(message, json=json)
            if acknowledge:
                client.acknowledge_message(name, message.pop_receipt)

    service.run(work)


@app.command("peek")
@with_service
def peek(
    service: Service,
    name: QueueName,
    n: Annotated[int, typer.Option("-n", min=1, help="The maximum of messages.")] = 10,
    unwrap: Unwrap = False,
    json: Json = False,
) -> None:
    """Look at messages without leasing them. Example: cns queue peek orders -n 100"""
    found = service.run(lambda client: list(_browse(client, name, n)))
    if found and not json:
        print(_BROWSED)
    _print_browsed(found, unwrap=unwrap, json=json)


@app.command("tail")
@with_service
def tail(service: Service, name: QueueName, unwrap: Unwrap = False, json: Json = False) -> None:
    """Print messages as they arrive, without leasing them, until Ctrl-C. The queue is read once a second: a message
    that is deleted in between is missed. Example: cns queue tail orders --unwrap"""

    def work(client: Client) -> None:
        seen: set[str] = set()
        pause = threading.Event()
        if not json:
            print(_BROWSED, flush=True)
        while True:
            there = list(_browse(client, name, TAIL_PAGE * 100))
            _print_browsed([one for one in there if one.message_id not in seen], unwrap=unwrap, json=json)
            seen = {one.message_id for one in there}
            pause.wait(TAIL_INTERVAL_S)

    service.run(work)


def _measures(found: Statistics) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [
        ("visible", found.visible),
        ("in flight", found.in_flight),
        ("delayed", found.delayed),
    ]
    totals = found.totals
    if totals is not None:
        rows += [
            ("pushed", totals.pushed),
            ("popped", totals.popped),
            ("pushed a second", f"{totals.pushed_per_second:.2f}"),
            ("popped a second", f"{totals.popped_per_second:.2f}"),
        ]
    return rows


def _hour_text(hour_ms: int) -> str:
    return datetime.fromtimestamp(hour_ms / 1_000, UTC).strftime("%Y-%m-%d %H:00")


def _names(client: Client, prefix: str) -> list[str]:
    return [name for page in pages(partial(client.list_queues, prefix)) for name in page.queues]


def _texts(text: str) -> Iterator[str]:
    if text != "-":
        yield text
        return
    for line in sys.stdin:
        if line.strip():
            yield line.rstrip("\n")


def _browse(client: Client, name: str, n: int) -> Iterator[BrowsedMessage]:
    return first_messages(lambda after, limit: client.browse_messages(name, after=after, limit=limit), n, TAIL_PAGE)


def _print_received(message: ReceivedMessage, *, json: bool) -> None:
    if json:
        print_json([message])
    else:
        print(message.body, flush=True)


def _print_browsed(messages: list[BrowsedMessage], *, unwrap: bool, json: bool) -> None:
    if unwrap:
        messages = [replace(one, body=_unwrapped(one.body)) for one in messages]
    if json:
        print_json(messages)
        return
    for one in messages:
        sent = timestamp_text(one.sent_at)
        print(f"{sent:<24}  {one.state:<8}  {one.delivery_count:>8}  {one.message_id:<36}  {one.body}", flush=True)


def _unwrapped(body: str) -> str:
    """The message in the envelope of a topic, else the body."""
    try:
        return msgspec.json.decode(body, type=_Envelope).message
    except msgspec.MsgspecError:
        return body
