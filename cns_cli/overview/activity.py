"""`cns activity`: who did what to accounts, keys, queues, topics, subscriptions and the service."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cns.delivery.envelope import timestamp_text
from cns_backend.explain.labels import one_line
from cns_cli.durations import time_ms
from cns_cli.options import Data, Json
from cns_cli.output import print_json, refuse
from cns_common.activity.record import AdministrativeAct
from cns_common.activity.search import ActFilter, newest_acts
from cns_common.clock import Clock
from cns_common.configuration.settings import load_settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.errors import StartError

SHOWN = 100
UNCHANGED = ", nothing changed"


def activity(
    since: Annotated[str, typer.Option(help="Since 10m, 2h, 1d ago, or a time: 2026-11-21T08:00 (UTC).")] = "",
    until: Annotated[str, typer.Option(help="Until then, in the same form.")] = "",
    account: Annotated[str, typer.Option(help="Acts of this account.")] = "",
    principal: Annotated[str, typer.Option(metavar="TEXT", help="A part of the ARN, or of user@host.")] = "",
    action: Annotated[str, typer.Option(metavar="TEXT", help="A part of the name: DeleteQueue, cns:, SignIn.")] = "",
    target: Annotated[str, typer.Option(metavar="TEXT", help="A part of the target's name or ARN.")] = "",
    failed: Annotated[bool, typer.Option("--failed", help="Refused or failed acts only.")] = False,
    n: Annotated[int, typer.Option("-n", min=1, help="The number of acts, the newest.")] = SHOWN,
    json: Json = False,
    data: Data = None,
) -> None:
    """Print who did what: the administrative acts that processes of this machine recorded, the newest last.

    Example: cns activity --since 1d --action Delete --failed
    """
    now_ms = Clock().real_ms()
    try:
        since_ms, until_ms = time_ms(since, now_ms), time_ms(until, now_ms)
        settings = load_settings(data)
        if not settings.data.is_dir():
            raise StartError(f"there is no data directory {settings.data.absolute()}", EXIT_DATA_UNUSABLE)
    except ValueError as error:
        refuse(error)
    wanted = ActFilter(since_ms, until_ms, account, principal, action, target, failed)
    found = newest_acts(settings.acts_path, wanted, n)
    if json:
        print_json(map(_members, reversed(found.events)))
    else:
        for act in reversed(found.events):
            print(one_line(_line(act)))
    if not found.events:
        print(f"cns: no such act is in {settings.acts_path}", file=sys.stderr)


def _members(act: AdministrativeAct) -> dict[str, str | int | bool]:
    return {
        "at": act.at_ms,
        "action": act.action,
        "target": act.target,
        "detail": act.detail,
        "account": act.account,
        "principal": act.principal,
        "keyId": act.key_id,
        "address": act.address,
        "via": act.via,
        "result": act.result,
        "unchanged": act.unchanged,
        "requestId": act.request_id,
    }


def _line(act: AdministrativeAct) -> str:
    who = act.principal or "nobody"
    where = f" from {act.address}" if act.address else ""
    parts = [timestamp_text(act.at_ms), act.action, act.target, f"({act.detail})" if act.detail else ""]
    return " ".join(
        [*filter(None, parts), f"by {who}{where} via {act.via}: {act.result}{UNCHANGED if act.unchanged else ''}"]
    )
