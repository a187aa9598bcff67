"""`cns receiver`: an HTTP endpoint for trying and testing deliveries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from cns_cli.options import UntilInputEnds
from cns_cli.service.parent_watch import stop_with_parent


def receiver(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 6060,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    confirm: Annotated[
        Literal["auto", "manual", "never"], typer.Option(help="Whether subscriptions are confirmed.")
    ] = "auto",
    confirm_host: Annotated[
        list[str] | None, typer.Option(help="Another host whose URLs in messages may be fetched; may be repeated.")
    ] = None,
    verify: Annotated[Literal["on", "off"], typer.Option(help="Whether signatures are checked.")] = "on",
    keep: Annotated[int, typer.Option(min=1, max=1_000_000, help="Deliveries to keep per endpoint.")] = 10_000,
    body_bytes: Annotated[int, typer.Option(min=0, max=2 * 1024 * 1024, help="Bytes to keep of each body.")] = 4_096,
    journal: Annotated[
        Path | None, typer.Option(help="Append one line per delivery to this file; a restart continues its counts.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Makes random behaviour repeatable.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM certificate: serve https.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM private key of --tls-cert.")] = None,
    until_input_ends: UntilInputEnds = False,
) -> None:
    """Run an HTTP endpoint for testing deliveries: it confirms, records and verifies, and fails as requested.

    The query of the subscribed URL sets the behaviour. This endpoint fails twice, then succeeds:
    http://127.0.0.1:6060/endpoint/a?status=500&times=2

    status=503, retry_after=30, redirect=URL, body=TEXT, body_bytes=N: the answer;
    delay_ms=2000; hang=true: no answer; refuse=true: the connection is closed;
    times=2: the next two requests; chance=0.5: half of them; on=all: confirmations, too.

    To change it later, and for `then` (after `times`) and `auth` (asks for a password):
    curl -X PUT http://127.0.0.1:6060/endpoint/a/behaviour -d '{"status": 500, "times": 2, "then": {"hang": true}}'
    """
    from cns_receiver.receiver import ReceiverOptions, run_receiver

    options = ReceiverOptions(
        confirm=confirm,
        confirm_hosts=tuple(confirm_host or ()),
        verify=verify,
        keep=keep,
        body_bytes=body_bytes,
        journal=journal,
        seed=seed,
        tls_cert=tls_cert,
        tls_key=tls_key,
    )
    if until_input_ends:
        stop_with_parent()
    run_receiver(host, port, options)
