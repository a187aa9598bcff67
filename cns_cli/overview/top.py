"""`cns top`: current rates by queue, topic and endpoint."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import msgspec
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cns_cli.options import Data, Json
from cns_cli.output import print_json, print_table, refuse
from cns_cli.overview.metrics import ServiceReader, ServiceUnreachable
from cns_cli.overview.rates import EndpointRate, EventTail, QueueRate, TopicRate, queue_rates
from cns_cli.remote.connection import EXIT_UNREACHABLE, Url
from cns_common.configuration.settings import Settings, load_settings

ROWS_SHOWN = 15
_QUEUE = ("queue", "sent/s", "received/s", "deleted/s", "visible", "in flight", "oldest s")
_TOPIC = ("topic", "published/s", "delivered/s", "failed/s")
_ENDPOINT = ("endpoint", "delivered/s", "failed/s")
_ARN = re.compile(r"arn:aws:\w+:[a-z0-9-]*:\d*:")
"""The part of a name that the live view omits, to save columns."""
_Rate = QueueRate | TopicRate | EndpointRate


class TopView(msgspec.Struct, frozen=True):
    """One snapshot."""

    url: str
    health: str
    seconds: float
    queues: list[QueueRate]
    topics: list[TopicRate]
    endpoints: list[EndpointRate]


def top(
    url: Url = "",
    data: Data = None,
    interval: Annotated[float, typer.Option(min=0.1, max=3_600, help="Seconds between snapshots.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one snapshot as plain lines, and end.")] = False,
    rows: Annotated[int, typer.Option("-n", min=1, max=1_000, help="Rows of each table.")] = ROWS_SHOWN,
    json: Json = False,
) -> None:
    """Show the rates of queues, topics and endpoints, live; q or Ctrl-C ends it. Topics and endpoints are those of
    workers on this machine, from the events in the data directory.

    Example: cns top --once --json
    """
    settings = load_settings(data)
    try:
        if once or json or not sys.stdout.isatty():
            _print_plain(settings, url, interval, rows, once=once, json=json)
        else:
            _show_live(settings, url, interval, rows)
    except ServiceUnreachable as error:
        refuse(error, EXIT_UNREACHABLE)
    except KeyboardInterrupt:
        sys.exit(0)


def _looks(settings: Settings, url: str, interval: float, rows: int, *, live: bool) -> Iterator[TopView]:
    """Yield a snapshot after each interval. In the live view the key `q` on a terminal ends it."""
    reader, tail = ServiceReader(settings, url), EventTail(settings.events_path)
    before, begin = reader.page(), time.monotonic()
    while not _quit_within(interval, keys=live and sys.stdin is not None and sys.stdin.isatty()):
        now, end = reader.page(), time.monotonic()
        events, seconds = tail.look(), end - begin
        yield TopView(
            url=reader.url,
            health=str(reader.health()["status"]),
            seconds=round(seconds, 3),
            queues=queue_rates(before, now, seconds)[:rows],
            topics=events.topics(seconds)[:rows],
            endpoints=events.endpoints(seconds)[:rows],
        )
        before, begin = now, end


def _quit_within(seconds: float, *, keys: bool) -> bool:
    """Wait this long. Returns whether `q` was pressed; without `keys` none is read."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        ready, _, _ = select.select([sys.stdin] if keys else [], [], [], left)
        if ready and os.read(sys.stdin.fileno(), 1) in (b"q", b"Q"):
            return True
    return False


def _print_plain(settings: Settings, url: str, interval: float, rows: int, *, once: bool, json: bool) -> None:
    for view in _looks(settings, url, interval, rows, live=False):
        if json:
            print_json([view])
        else:
            print(_headline(view))
            for titles, rates in _tables(view):
                print_table(titles, [_cells(one) for one in rates])
            sys.stdout.flush()
        if once:
            return


def _show_live(settings: Settings, url: str, interval: float, rows: int) -> None:
    with _keys_at_once(), Live(console=Console(), screen=True, auto_refresh=False) as live:
        live.update(Text("waiting for the first snapshot; q ends"), refresh=True)
        for view in _looks(settings, url, interval, rows, live=True):
            live.update(_screen(view), refresh=True)


@contextmanager
def _keys_at_once() -> Iterator[None]:
    """Read keys without Enter until the end of the block."""
    if not sys.stdin.isatty():
        yield
        return
    former = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, former)


def _screen(view: TopView) -> RenderableType:
    parts: list[RenderableType] = [Text(f"{_headline(view)}; q ends", style="bold")]
    for titles, rates in _tables(view):
        table = Table(box=None, pad_edge=False, header_style="bold cyan")
        for number, title in enumerate(titles):
            table.add_column(title, justify="left" if number == 0 else "right", no_wrap=number > 0)
        for one in rates:
            name, *numbers = [_ARN.sub("", str(cell)) for cell in _cells(one)]
            table.add_row(Text(name, overflow="ellipsis", no_wrap=True), *numbers)
        parts += [Text(), table]
    return Group(*parts)


def _headline(view: TopView) -> str:
    return f"{view.url} is {view.health}; over {view.seconds:.1f} s"


def _tables(view: TopView) -> list[tuple[Sequence[str], Sequence[_Rate]]]:
    tables: list[tuple[Sequence[str], Sequence[_Rate]]] = [
        (_QUEUE, view.queues),
        (_TOPIC, view.topics),
        (_ENDPOINT, view.endpoints),
    ]
    return [(titles, rates) for titles, rates in tables if rates]


def _cells(rate: _Rate) -> tuple[object, ...]:
    return msgspec.structs.astuple(rate)
