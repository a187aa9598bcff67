"""`cns topic …` and `cns publish`: topics, subscriptions, messages."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

import typer
from msgspec.structs import replace

from cns.client import Client
from cns.client.values import Subscription, SubscriptionArn
from cns_cli.options import Json, Yes, confirm
from cns_cli.output import print_attributes, print_items, print_json, print_value, refuse
from cns_cli.queue_policy import statement_for, with_statement
from cns_cli.remote.attributes import Attributes, Changes, MessageAttributes, read_attributes, wire_attributes
from cns_cli.remote.connection import Service, UsageError, with_service
from cns_cli.remote.names import TopicName
from cns_cli.remote.paging import pages

app = typer.Typer(help="Topics and subscriptions, over the REST API.", no_args_is_help=True, add_completion=False)


@app.command("list")
@with_service
def list_topics(service: Service, json: Json = False) -> None:
    """List topics. Example: cns topic list"""
    arns = service.run(lambda client: [arn for page in pages(client.list_topics) for arn in page.topics])
    if json:
        print_json({"topic": arn.rpartition(":")[2], "arn": arn} for arn in arns)
    else:
        for arn in arns:
            print(arn.rpartition(":")[2])


@app.command("create")
@with_service
def create(
    service: Service,
    name: TopicName,
    attributes: Attributes = None,
    json: Json = False,
) -> None:
    """Create a topic and print its ARN. Example: cns topic create news"""
    given = read_attributes(attributes, "FifoTopic" if name.endswith(".fifo") else "")
    made = service.run(lambda client: client.create_topic(name, given))
    print_value(made, made.arn, json=json)


@app.command("show")
@with_service
def show(service: Service, name: TopicName, json: Json = False) -> None:
    """Print a topic's attributes. Example: cns topic show news --json"""
    print_attributes(service.run(lambda client: client.show_topic(name)), json=json)


@app.command("set")
@with_service
def set_attributes(service: Service, name: TopicName, attributes: Changes, json: Json = False) -> None:
    """Set attributes. Example: cns topic set news DisplayName=News"""
    given = read_attributes(attributes)
    changed = service.run(lambda client: client.change_topic(name, given))
    print_value(changed, "", json=json)


@app.command("delete")
@with_service
def delete(service: Service, name: TopicName, yes: Yes = False, json: Json = False) -> None:
    """Delete a topic and its subscriptions; asks at a terminal. Example: cns topic delete news"""
    confirm(f"Delete the topic {name} and its subscriptions?", yes=yes)
    service.run(lambda client: client.delete_topic(name))
    print_value({"deleted": name}, "", json=json)


@app.command("subscribe")
@with_service
def subscribe(
    service: Service,
    name: TopicName,
    protocol: Annotated[str, typer.Argument(help="sqs, http, https, email, …")],
    endpoint: Annotated[str, typer.Argument(help="A queue's ARN, a URL, an address.")],
    attributes: Attributes = None,
    allow: Annotated[bool, typer.Option("--allow", help="Allow the topic in the queue's policy.")] = (False),
    json: Json = False,
) -> None:
    """Subscribe an endpoint, and warn if messages would not arrive or may be lost.

    Example: cns topic subscribe news sqs arn:aws:sqs:us-east-1:123456789012:orders --allow
    """
    given = read_attributes(attributes)
    if allow and protocol != "sqs":
        refuse("--allow changes the policy of a queue: it needs the protocol sqs")

    def work(client: Client) -> SubscriptionArn:
        if not allow:
            return client.subscribe(name, protocol, endpoint, given)
        queue = client.show_queue(endpoint.rpartition(":")[2])
        if queue.arn != endpoint:
            raise UsageError(f"--allow works for your own queues: {endpoint} belongs to another account")
        made = client.subscribe(name, protocol, endpoint, given)
        statement = statement_for(endpoint, made.arn.rpartition(":")[0])
        client.change_queue(queue.name, {"Policy": with_statement(queue.attributes.get("Policy", ""), statement)})
        return replace(made, warnings=[])

    made = service.run(work)
    print_value(made, made.arn, json=json)
    for text in made.warnings:
        print(f"cns: {text}", file=sys.stderr)


@app.command("subscriptions")
@with_service
def subscriptions(service: Service, name: TopicName, json: Json = False) -> None:
    """List a topic's subscriptions. Example: cns topic subscriptions news"""

    def work(client: Client) -> list[Subscription]:
        return [one for page in pages(partial(client.list_topic_subscriptions, name)) for one in page.subscriptions]

    titles = ("protocol", "endpoint", "subscription")
    print_items(service.run(work), titles, lambda one: (one.protocol, one.endpoint, one.arn), json=json)


@with_service
def publish(
    service: Service,
    name: TopicName,
    message: Annotated[str, typer.Argument(help="The message; - reads it from standard input.")],
    subject: Annotated[str | None, typer.Option(help="The subject of mails.")] = None,
    group: Annotated[str | None, typer.Option(help="Message group (FIFO topics).")] = None,
    deduplication: Annotated[str | None, typer.Option(help="Deduplication id (FIFO topics).")] = None,
    attribute: MessageAttributes = None,
    json: Json = False,
) -> None:
    """Publish a message to a topic and print its id. Example: cns publish news 'it rains' --attribute kind=weather"""
    attributes = wire_attributes(attribute)
    published = service.run(
        lambda client: client.publish_message(
            name,
            sys.stdin.read() if message == "-" else message,
            attributes=attributes,
            subject=subject,
            group_id=group,
            deduplication_id=deduplication,
        ),
    )
    print_value(published, published.message_id, json=json)
