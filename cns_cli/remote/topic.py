"""`cns topic …` and `cns publish`: topics, subscriptions, messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from cns.client import Client
from cns.client.values import Subscription
from cns_cli.remote.connection import AsJson, Profile, Region, Url, run
from cns_cli.remote.output import print_json, print_table
from cns_cli.remote.queue import Attributes, read_attributes

app = typer.Typer(help="Topics and subscriptions, over the REST API.", no_args_is_help=True, add_completion=False)

Name = Annotated[str, typer.Argument(metavar="TOPIC")]


@app.command("list")
def list_topics(profile: Profile = "", url: Url = "", region: Region = "", json: AsJson = False) -> None:
    """List topics. Example: cns topic list"""
    arns = run(profile, url, region, lambda client: list(_topics(client)))
    if json:
        print_json({"topic": arn.rpartition(":")[2], "arn": arn} for arn in arns)
    else:
        for arn in arns:
            print(arn.rpartition(":")[2])


@app.command("create")
def create(
    name: Name,
    attributes: Attributes = None,
    profile: Profile = "",
    url: Url = "",
    region: Region = "",
    json: AsJson = False,
) -> None:
    """Create a topic and print its ARN. Example: cns topic create news"""
    given = read_attributes(attributes)
    if name.endswith(".fifo"):
        given.setdefault("FifoTopic", "true")
    made = run(profile, url, region, lambda client: client.create_topic(name, given))
    if json:
        print_json([made])
    else:
        print(made.arn)


@app.command("delete")
def delete(name: Name, profile: Profile = "", url: Url = "", region: Region = "", json: AsJson = False) -> None:
    """Delete a topic and its subscriptions. Example: cns topic delete news"""
    run(profile, url, region, lambda client: client.delete_topic(name))
    if json:
        print_json([{"deleted": name}])


@app.command("subscribe")
def subscribe(
    name: Name,
    protocol: Annotated[str, typer.Argument(help="sqs, http, https, email, …")],
    endpoint: Annotated[str, typer.Argument(help="A queue's ARN, a URL, an address.")],
    attributes: Attributes = None,
    profile: Profile = "",
    url: Url = "",
    region: Region = "",
    json: AsJson = False,
) -> None:
    """Subscribe an endpoint. Example: cns topic subscribe news https https://shop.example.com/hook"""
    given = read_attributes(attributes)
    made = run(profile, url, region, lambda client: client.subscribe(name, protocol, endpoint, given))
    if json:
        print_json([made])
    else:
        print(made.arn)


@app.command("subscriptions")
def subscriptions(name: Name, profile: Profile = "", url: Url = "", region: Region = "", json: AsJson = False) -> None:
    """List a topic's subscriptions. Example: cns topic subscriptions news"""
    found = run(profile, url, region, lambda client: list(_subscriptions(client, name)))
    if json:
        print_json(found)
    else:
        print_table(("protocol", "endpoint", "subscription"), [(one.protocol, one.endpoint, one.arn) for one in found])


def publish(
    name: Name,
    message: Annotated[str, typer.Argument(help="The message.")],
    subject: Annotated[str | None, typer.Option(help="The subject of mails.")] = None,
    group: Annotated[str | None, typer.Option(help="Message group (FIFO topics).")] = None,
    deduplication: Annotated[str | None, typer.Option(help="Deduplication id (FIFO topics).")] = None,
    profile: Profile = "",
    url: Url = "",
    region: Region = "",
    json: AsJson = False,
) -> None:
    """Publish a message to a topic and print its id. Example: cns publish news 'it rains' --subject weather"""

    published = run(
        profile,
        url,
        region,
        lambda client: client.publish_message(
            name, message, subject=subject, group_id=group, deduplication_id=deduplication
        ),
    )
    if json:
        print_json([published])
    else:
        print(published.message_id)


def _topics(client: Client) -> Iterator[str]:
    after = ""
    while True:
        page = client.list_topics(after)
        yield from page.topics
        if not page.next:
            return
        after = page.next


def _subscriptions(client: Client, name: str) -> Iterator[Subscription]:
    after = ""
    while True:
        page = client.list_topic_subscriptions(name, after)
        yield from page.subscriptions
        if not page.next:
            return
        after = page.next
