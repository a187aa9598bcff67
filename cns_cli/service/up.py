"""`cns up`, and `cns api` and `cns worker`, which run one process of the cluster form each."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from cns_cli.options import Data, UntilInputEnds
from cns_common.errors import EXIT_USAGE


def up(
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="One port for SQS, SNS and STS. Default: 6059.")] = None,
    data: Data = None,
    auth: Annotated[str | None, typer.Option(help="on, or off: any credentials pass. Default: on.")] = None,
    api: Annotated[int, typer.Option(envvar="CNS_API", min=1, max=64, help="API processes.")] = 1,
    worker: Annotated[
        bool, typer.Option(envvar="CNS_WORKER", help="Whether to run workers, unless Celery workers deliver.")
    ] = True,
    workers: Annotated[int, typer.Option(envvar="CNS_WORKERS", min=1, max=64, help="Worker processes.")] = 1,
    account_id: Annotated[str | None, typer.Option(help="Account of callers with --auth=off.")] = None,
    compat: Annotated[str | None, typer.Option(help="localstack: its port, pages and URLs. Default: none.")] = None,
    region: Annotated[str | None, typer.Option(help="Region of unsigned calls. Default: us-east-1.")] = None,
    public_url: Annotated[str | None, typer.Option(help="Start of returned URLs. Default: the Host header.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM certificate: serve https.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM private key of --tls-cert.")] = None,
    init: Annotated[Path | None, typer.Option(help="Make what this file declares: see `cns config`.")] = None,
    test_clock: Annotated[bool, typer.Option("--test-clock", help="POST /_cns/clock advances time.")] = False,
    until_input_ends: UntilInputEnds = False,
) -> None:
    """Run the service on this machine: API, store and workers, supervised and restarted."""
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
        "INIT": init,
        "TEST_CLOCK": "true" if test_clock else None,
    }
    options = {f"CNS_{name}": str(value) for name, value in given.items() if value is not None}
    os.environ.update(options)  # noqa: TID251  # the processes read them as settings
    gc.disable()  # while the service is built, mostly by imports
    from cns_cli.service.supervise import run_up

    sys.exit(run_up(api, workers if worker else 0, until_input_ends=until_input_ends))


def api() -> None:
    """Run one API process of the cluster form (CNS_STORE=cassandra)."""
    _run_cluster_process("api")


def worker(
    role: Annotated[
        str | None,
        typer.Option(envvar="CNS_WORKER_ROLES", help="From producer,consumer,maintenance. Default: all."),
    ] = None,
) -> None:
    """Run one worker of the cluster form, without Celery (CNS_STORE=cassandra)."""
    if role is not None:
        os.environ["CNS_WORKER_ROLES"] = role  # noqa: TID251  # the process reads it as a setting
    _run_cluster_process("worker")


def _run_cluster_process(role: str) -> None:
    if os.environ.get("CNS_STORE") != "cassandra":  # noqa: TID251  # reading all settings takes too long here
        print("cns: this is a process of the cluster form: set CNS_STORE=cassandra, or run `cns up`", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    gc.disable()  # as above
    from cns_cli.service.processes import main as run

    run(role)
