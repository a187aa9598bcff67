"""The `cns` command. It loads little: what is slow to import is imported by the process that needs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

app = typer.Typer(
    name="cns",
    help="An open pub/sub notification service that speaks the Amazon SNS and SQS APIs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
accounts = typer.Typer(help="Accounts and their access keys.", no_args_is_help=True)
app.add_typer(accounts, name="account")

Data = Annotated[Optional[Path], typer.Option("--data", envvar="CNS_DATA", help="Where messages lie. [default: data]")]  # noqa: UP045  # typer reads it


@app.command()
def up(
    host: Annotated[Optional[str], typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,  # noqa: UP045
    port: Annotated[Optional[int], typer.Option(help="One port for SQS, SNS and STS. [default: 6059]")] = None,  # noqa: UP045
    data: Data = None,
    auth: Annotated[Optional[str], typer.Option(help="on, or off: any credentials pass. [default: on]")] = None,  # noqa: UP045
    api: Annotated[int, typer.Option(envvar="CNS_API", min=1, max=64, help="API processes.")] = 1,
    account_id: Annotated[Optional[str], typer.Option(help="Account of callers under --auth=off.")] = None,  # noqa: UP045
    region: Annotated[Optional[str], typer.Option(help="Region of unsigned calls. [default: us-east-1]")] = None,  # noqa: UP045
    public_url: Annotated[str | None, typer.Option(help="What URLs handed out begin with. [default: the Host]")] = None,
    tls_cert: Annotated[Optional[Path], typer.Option(help="PEM certificate: serve https.")] = None,  # noqa: UP045
    tls_key: Annotated[Optional[Path], typer.Option(help="PEM private key of --tls-cert.")] = None,  # noqa: UP045
    test_clock: Annotated[bool, typer.Option("--test-clock", help="POST /_cns/clock advances time.")] = False,
) -> None:
    """Run the service on this machine: API, store and worker, watched and restarted."""
    given = {
        "HOST": host,
        "PORT": port,
        "DATA": data,
        "AUTH": auth,
        "ACCOUNT_ID": account_id,
        "REGION": region,
        "PUBLIC_URL": public_url,
        "TLS_CERT": tls_cert,
        "TLS_KEY": tls_key,
        "TEST_CLOCK": "true" if test_clock else None,
    }
    os.environ.update({f"CNS_{name}": str(value) for name, value in given.items() if value is not None})
    from workers.up import run_up

    sys.exit(run_up(api))


@app.command()
def receiver(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 6060,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    confirm: Annotated[
        Literal["auto", "manual", "never"], typer.Option(help="Whether subscriptions are confirmed.")
    ] = "auto",
    confirm_host: Annotated[
        list[str] | None, typer.Option(help="A host besides this machine whose URLs in messages may be visited.")
    ] = None,
    verify: Annotated[Literal["on", "off"], typer.Option(help="Whether signatures are checked.")] = "on",
    keep: Annotated[int, typer.Option(min=1, max=1_000_000, help="Deliveries of an endpoint to keep.")] = 10_000,
    body_bytes: Annotated[int, typer.Option(min=0, max=2 * 1024 * 1024, help="To keep of each body.")] = 4_096,
    journal: Annotated[
        Path | None, typer.Option(help="Append a line per delivery to this file, and count on from it.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Makes what is left to chance repeatable.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM certificate: serve https.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM private key of --tls-cert.")] = None,
) -> None:
    """Run an HTTP endpoint for trying out and testing deliveries: confirms, records, verifies, fails on command."""
    from workers.receiver import Options, run_receiver

    options = Options(
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
    run_receiver(host, port, options)


@accounts.command("create")
def account_create(data: Data = None) -> None:
    """Make an account and print its keys, once."""
    from workers.account_commands import create

    create(data)


@accounts.command("show")
def account_show(account: str, data: Data = None) -> None:
    """Print an account's key ids (secrets are never shown again)."""
    from workers.account_commands import show

    show(account, data)


@accounts.command("list")
def account_list(data: Data = None) -> None:
    """Print all accounts."""
    from workers.account_commands import show_all

    show_all(data)


@accounts.command("rotate")
def account_rotate(account: str, data: Data = None) -> None:
    """Print new keys of an account, once; its former keys are refused from then on."""
    from workers.account_commands import rotate

    rotate(account, data)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
