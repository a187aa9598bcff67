"""The `cns` command. It loads little: what is slow to import is imported by the process that needs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from workers.extras import extra_missing

app = typer.Typer(
    name="cns",
    help="An open pub/sub notification service that speaks the Amazon SNS and SQS APIs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
EXIT_USAGE = 2
accounts = typer.Typer(help="Accounts and their access keys.", no_args_is_help=True)
app.add_typer(accounts, name="account")
schema = typer.Typer(help="Keyspace and tables of the cluster form.", no_args_is_help=True)
app.add_typer(schema, name="schema")
outbox = typer.Typer(help="What was to leave by ways that are not set up.", no_args_is_help=True)
app.add_typer(outbox, name="outbox")
quarantine = typer.Typer(help="Jobs that were begun too often and never finished.", no_args_is_help=True)
app.add_typer(quarantine, name="quarantine")
sms = typer.Typer(help="Phone numbers that SMS go to.", no_args_is_help=True)
app.add_typer(sms, name="sms")
pool = typer.Typer(help="The delivery pools of the workers, and their sizes.", no_args_is_help=True)
app.add_typer(pool, name="pool")
pipeline = typer.Typer(help="Reports on what happened, by Spark; needs Java.", no_args_is_help=True)
app.add_typer(pipeline, name="pipeline")

Data = Annotated[Optional[Path], typer.Option("--data", envvar="CNS_DATA", help="Where messages lie. [default: data]")]  # noqa: UP045  # typer reads it


@app.command()
def up(
    host: Annotated[Optional[str], typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,  # noqa: UP045
    port: Annotated[Optional[int], typer.Option(help="One port for SQS, SNS and STS. [default: 6059]")] = None,  # noqa: UP045
    data: Data = None,
    auth: Annotated[Optional[str], typer.Option(help="on, or off: any credentials pass. [default: on]")] = None,  # noqa: UP045
    api: Annotated[int, typer.Option(envvar="CNS_API", min=1, max=64, help="API processes.")] = 1,
    worker: Annotated[
        bool, typer.Option(envvar="CNS_WORKER", help="A worker of its own, or CNS_WORKER=off: Celery workers deliver.")
    ] = True,
    account_id: Annotated[Optional[str], typer.Option(help="Account of callers under --auth=off.")] = None,  # noqa: UP045
    compat: Annotated[Optional[str], typer.Option(help="localstack: its port, pages and URLs. [default: none]")] = None,  # noqa: UP045
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
        "COMPAT": compat,
        "ACCOUNT_ID": account_id,
        "REGION": region,
        "PUBLIC_URL": public_url,
        "TLS_CERT": tls_cert,
        "TLS_KEY": tls_key,
        "TEST_CLOCK": "true" if test_clock else None,
    }
    os.environ.update({f"CNS_{name}": str(value) for name, value in given.items() if value is not None})
    from workers.up import run_up

    sys.exit(run_up(api, worker=worker))


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


@app.command()
def explain(
    message_id: str,
    topic: Annotated[str, typer.Option(metavar="ARN", help="Where nothing else says it.")] = "",
    subscription: Annotated[str, typer.Option(metavar="ARN", help="Of this one only.")] = "",
    since: Annotated[str, typer.Option(metavar="AGO", help="Look at events of the last 45m, 2h, 3d only.")] = "",
    events: Annotated[
        list[Path] | None, typer.Option(help="Where events lie; several. [default: where this process would write]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All that is known, as JSON.")] = False,
    data: Data = None,
) -> None:
    """Tell one message's life: accepted, filtered, each attempt and its answer, the next one, the end."""
    from workers.explain_commands import Asked, show

    show(Asked(message_id, topic, subscription, since, tuple(events or ()), data), as_json=as_json)


@outbox.command("list")
def outbox_list(
    account: Annotated[str, typer.Option(help="Of this account only.")] = "",
    protocol: Annotated[str, typer.Option(help="Of this protocol only: sms, email, lambda …")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 20,
    data: Data = None,
) -> None:
    """Print the newest, a line each."""
    from workers.outbox_commands import show_newest

    show_newest(account, protocol, limit, data)


@outbox.command("show")
def outbox_show(item_id: Annotated[str, typer.Argument(metavar="ID")], data: Data = None) -> None:
    """Print one: to whom, by what, and what the endpoint would have got."""
    from workers.outbox_commands import show

    show(item_id, data)


@quarantine.command("list")
def quarantine_list(data: Data = None) -> None:
    """Print all that were set aside, a line each."""
    from workers.quarantine_commands import show_all

    show_all(data)


@quarantine.command("show")
def quarantine_show(job_id: Annotated[str, typer.Argument(metavar="ID")], data: Data = None) -> None:
    """Print one: where it was, why it is here, and what it says."""
    from workers.quarantine_commands import show

    show(job_id, data)


@quarantine.command("release")
def quarantine_release(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` prints it; `all` is every one.")],
    data: Data = None,
) -> None:
    """Put jobs back into their queues, as if they had never been begun."""
    from workers.quarantine_commands import release

    release(job_id, data)


@sms.command("opt-out")
def sms_opt_out(
    number: str,
    account: Annotated[str, typer.Option(help="Whose SMS it gets no more. [default: the only one]")] = "",
    data: Data = None,
) -> None:
    """Enter what an answer STOP says: the number gets no SMS any more."""
    from workers.sms_commands import opt_out

    opt_out(number, account, data)


@app.command()
def logs(
    name: Annotated[str, typer.Argument(metavar="ARN", help="Of a topic or an application; or a log group: sns/….")],
    failures: Annotated[bool, typer.Option("--failures", help="Those that failed only.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is logged from now on.")] = False,
    since: Annotated[str, typer.Option(help="10m, 2h, 1d, or a time: 2026-11-21T08:00 (UTC).")] = "",
    data: Data = None,
) -> None:
    """Print delivery status logs, a record a line, merged by time: those that workers of this machine wrote."""
    from workers.log_commands import show

    show(name, since, data, failures=failures, follow=follow)


PoolName = Annotated[str, typer.Argument(metavar="POOL", help="delivery, or redelivery.")]
PoolWorker = Annotated[
    str, typer.Option(metavar="PROCESS", help="Of this worker only, until it ends. [default: of all]")
]


@pool.command("list")
def pool_list(
    as_json: Annotated[bool, typer.Option("--json", help="All that is known, for programs.")] = False,
    data: Data = None,
) -> None:
    """Print the pools of every worker: threads, what was wanted by whom, sends in flight and waiting."""
    from workers.pool_commands import show_all

    show_all(data, as_json=as_json)


@pool.command("resize")
def pool_resize(
    name: PoolName,
    threads: Annotated[int, typer.Argument(metavar="THREADS", help="In each worker, 1 to 64.")],
    worker: PoolWorker = "",
    data: Data = None,
) -> None:
    """Give a pool so many threads, in the workers that run and in those to come."""
    from workers.pool_commands import resize

    resize(name, threads, worker, data)


@pool.command("reset")
def pool_reset(name: PoolName, worker: PoolWorker = "", data: Data = None) -> None:
    """Give a pool the threads that the settings say."""
    from workers.pool_commands import reset

    reset(name, worker, data)


Out = Annotated[Path | None, typer.Option(help="Where the tables and reports lie. [default: DATA/pipeline]")]


@pipeline.command("ingest")
def pipeline_ingest(
    data: Data = None,
    events: Annotated[Path | None, typer.Option(help="Where events were written. [default: DATA/events]")] = None,
    out: Out = None,
) -> None:
    """Read the events that are new into tables, each once."""
    from workers.pipeline_commands import ingest

    ingest(data, events, out)


@pipeline.command("report")
def pipeline_report(data: Data = None, out: Out = None) -> None:
    """Per topic and subscription: accepted, attempts, success, times from publish to delivery."""
    from workers.pipeline_commands import report

    report(data, out)


Replication = Annotated[
    int | None, typer.Option(min=1, max=9, help="Copies in the data centre. [default: CNS_CASSANDRA_REPLICATION, 3]")
]


@schema.command("apply")
def schema_apply(replication: Replication = None) -> None:
    """Make the keyspace and the tables that are missing."""
    from workers.schema_commands import apply

    apply(replication)


@schema.command("show")
def schema_show(replication: Replication = None) -> None:
    """Print the CQL that `apply` runs."""
    from workers.schema_commands import show

    show(replication)


@schema.command("check")
def schema_check(replication: Replication = None) -> None:
    """Compare what is there with what should be, a line for each difference."""
    from workers.schema_commands import check

    check(replication)


@app.command()
def api() -> None:
    """Run one API process of the cluster form (CNS_STORE=cassandra)."""
    _run_cluster_process("api")


@app.command()
def worker() -> None:
    """Run one worker of the cluster form, without Celery (CNS_STORE=cassandra)."""
    _run_cluster_process("worker")


def _run_cluster_process(role: str) -> None:
    if os.environ.get("CNS_STORE") != "cassandra":
        print("cns: this is a process of the cluster form: set CNS_STORE=cassandra, or run `cns up`", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    from workers.process import main as run

    run(role)


def main() -> None:
    try:
        app()
    except ModuleNotFoundError as error:
        missing = extra_missing(error)
        print(f"cns: {missing}", file=sys.stderr)
        sys.exit(missing.exit_code)


if __name__ == "__main__":
    main()
