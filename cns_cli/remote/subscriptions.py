"""`cns subscriptions …`: subscriptions of all topics, and a tester of filter policies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import typer

from cns.client import Client
from cns.client.values import Subscription
from cns.delivery.envelope import timestamp_text
from cns.filters.evaluation import matches
from cns.filters.message_values import attribute_values, body_values
from cns.filters.model import Scope
from cns.filters.parser import read_filter
from cns.filters.reasons import reason
from cns.subscriptions.subscription import PAUSED
from cns_cli.durations import duration_ms
from cns_cli.options import Json, Yes
from cns_cli.options import confirm as ask
from cns_cli.output import print_attributes, print_items, print_value, refuse
from cns_cli.remote.attributes import Changes, MessageAttributes, read_attributes, read_message_attributes
from cns_cli.remote.connection import Service, with_service
from cns_cli.remote.names import TopicName, complete_topic
from cns_cli.remote.paging import pages
from cns_common.errors import RequestError

EXIT_NO_MATCH = 1
UNCONFIRMED = "PendingConfirmation"

app = typer.Typer(help="Subscriptions of all topics, over the REST API.", no_args_is_help=True, add_completion=False)

Arn = Annotated[str, typer.Argument(metavar="ARN", help="The subscription, as `list` prints it.")]


@app.command("list")
@with_service
def list_subscriptions(
    service: Service,
    topic: Annotated[str, typer.Argument(help="Only subscriptions of this topic.", autocompletion=complete_topic)] = "",
    json: Json = False,
) -> None:
    """List subscriptions. Example: cns subscriptions list news --json"""

    found = service.run(lambda client: list(_subscriptions(client)))
    found = [one for one in found if topic in ("", one.topic_arn, one.topic_arn.rpartition(":")[2])]
    print_items(
        found,
        ("topic", "protocol", "endpoint", "subscription"),
        lambda one: (one.topic_arn.rpartition(":")[2], one.protocol, one.endpoint, one.arn),
        json=json,
    )


@app.command("show")
@with_service
def show(service: Service, arn: Arn, json: Json = False) -> None:
    """Print a subscription's attributes.

    Example: cns subscriptions show arn:aws:sns:us-east-1:123456789012:news:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55
    """
    _check(arn)
    print_attributes(service.run(lambda client: client.subscription_attributes(arn)), json=json)


@app.command("set")
@with_service
def set_attributes(service: Service, arn: Arn, attributes: Changes, json: Json = False) -> None:
    """Set attributes. Example: cns subscriptions set ARN RawMessageDelivery=true"""
    _check(arn)
    given = read_attributes(attributes)
    changed = service.run(lambda client: client.set_subscription_attributes(arn, given))
    print_value(changed, "", json=json)


@app.command("confirm")
@with_service
def confirm(
    service: Service,
    topic: TopicName,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The token that the endpoint received.")],
    json: Json = False,
) -> None:
    """Confirm a subscription and print its ARN. Example: cns subscriptions confirm news 2336412f37fb687f5d51e6e2"""
    arn = service.run(lambda client: client.confirm_subscription(topic, token).arn)
    print_value({"arn": arn}, arn, json=json)


@app.command("delete")
@with_service
def delete(service: Service, arn: Arn, yes: Yes = False, json: Json = False) -> None:
    """Delete a subscription; asks at a terminal.

    Example: cns subscriptions delete arn:aws:sns:us-east-1:123456789012:news:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55
    """
    _check(arn)
    ask(f"Delete the subscription {arn}?", yes=yes)
    service.run(lambda client: client.unsubscribe(arn))
    print_value({"deleted": arn}, "", json=json)


@app.command("pause")
@with_service
def pause(service: Service, arn: Arn, json: Json = False) -> None:
    """Hold the messages of a subscription, each for at most 14 days.

    Example: cns subscriptions pause arn:aws:sns:us-east-1:123456789012:news:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55
    """
    _set_paused(service, arn, True, json)


@app.command("resume")
@with_service
def resume(service: Service, arn: Arn, json: Json = False) -> None:
    """Send the held messages of a paused subscription, and new ones.

    Example: cns subscriptions resume arn:aws:sns:us-east-1:123456789012:news:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55
    """
    _set_paused(service, arn, False, json)


def _set_paused(service: Service, arn: str, paused: bool, json: bool) -> None:
    _check(arn)
    change = {PAUSED: "true" if paused else "false"}
    service.run(lambda client: client.set_subscription_attributes(arn, change))
    print_value({"arn": arn, "paused": paused}, "", json=json)


@app.command("portal-link")
@with_service
def portal_link(
    service: Service,
    arn: Arn,
    life: Annotated[str, typer.Option(help="Its validity: 12h, 7d; at most 366d.")] = "7d",
    links: Annotated[bool, typer.Option("--list", help="List the valid links, without their URLs.")] = (False),
    revoke: Annotated[str, typer.Option(metavar="ID", help="End the link with this id.")] = "",
    json: Json = False,
) -> None:
    """Print a link that lets the owner of the endpoint see, retry, pause and resume its deliveries.

    Example: cns subscriptions portal-link arn:aws:sns:us-east-1:123456789012:news:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55
    """
    _check(arn)
    if revoke:
        service.run(lambda client: client.revoke_portal_link(arn, revoke))
        print_value({"revoked": revoke}, "", json=json)
    elif links:
        found = service.run(lambda client: client.portal_links(arn))
        titles = ("id", "ends", "made by")
        print_items(found, titles, lambda one: (one.id, timestamp_text(one.expires_at), one.made_by), json=json)
    else:
        life_ms = duration_ms(life)
        if life_ms is None:
            refuse(f"{life!r} is not a duration such as 12h or 7d")
        made = service.run(lambda client: client.create_portal_link(arn, life_ms // 1000))
        print_value(made, made.url, json=json)


class _Verdict(NamedTuple):
    passes: bool
    why: str


@app.command("test-filter")
@with_service
def test_filter(
    service: Service,
    message: Annotated[str, typer.Option(help="The message.")] = "",
    attribute: MessageAttributes = None,
    policy: Annotated[str, typer.Option(help="A filter policy.")] = "",
    scope: Annotated[Scope, typer.Option(help="What the policy applies to.")] = Scope.ATTRIBUTES,
    subscription: Annotated[str, typer.Option(metavar="ARN", help="Take its policy and scope.")] = "",
    json: Json = False,
) -> None:
    """Say whether a filter policy accepts a message, and if not, why. Exit code 1 if it does not. With --policy, no
    service is needed.

    Example: cns subscriptions test-filter --policy '{"kind": ["order"]}' --attribute kind=order
    """
    if bool(policy) == bool(subscription):
        refuse("give either --policy or --subscription")
    if subscription:
        policy, scope = service.run(lambda client: _stored(client, subscription))
    verdict = (
        _judge(policy, scope, message, read_message_attributes(attribute)) if policy else _Verdict(True, "no policy")
    )
    text = "passes" if verdict.passes else f"does not pass: {verdict.why}"
    print_value({"passes": verdict.passes, "reason": verdict.why}, text, json=json)
    if not verdict.passes:
        sys.exit(EXIT_NO_MATCH)


def _judge(text: str, scope: Scope, message: str, attributes: dict[str, tuple[str, str]]) -> _Verdict:
    try:
        _, policy = read_filter(text, scope)
    except RequestError as error:
        refuse(" ".join(error.message.split()))
    values = attribute_values(attributes) if scope is Scope.ATTRIBUTES else body_values(message)
    if values is None:
        why = "an attribute is malformed" if scope is Scope.ATTRIBUTES else "the message is not a JSON object"
        return _Verdict(False, why)
    return _Verdict(True, "") if matches(policy, values) else _Verdict(False, reason(policy, values))


def _stored(client: Client, arn: str) -> tuple[str, Scope]:
    _check(arn)
    attributes = client.subscription_attributes(arn).attributes
    return attributes.get("FilterPolicy", ""), Scope(attributes.get("FilterPolicyScope", Scope.ATTRIBUTES.value))


def _subscriptions(client: Client) -> Iterator[Subscription]:
    for page in pages(client.list_subscriptions):
        yield from page.subscriptions


def _check(arn: str) -> None:
    """End the command if the text is not the ARN of a subscription."""
    if len(arn.split(":")) != 7:
        refuse(f"{arn!r} is not the ARN of a subscription" + (": it is not confirmed" if arn == UNCONFIRMED else ""))
