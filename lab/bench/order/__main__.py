"""Senders and receivers as in the experiments of seed 004: rates, response times, loss, duplicates and order.

python -m lab.bench.order [--engine bdqs] [--order-hint 1] [--option NAME=VALUE …] [--client rest] [--processes 2]
    [--queues 20] [--senders 3] [--receivers 3] [--messages 100] [--drop 0.01] [--quit 0.01] [--mttf 10 --mttr 2]
    [--repeat 3] …

All senders send; then all receivers receive, wait for `--receive-delay`, and delete, over HTTP. `--engine embedded`
(the default) runs the embedded form, another engine the cluster form with as many API processes as `--processes`. The
right order is that of the acknowledgements at the clients: sends that overlap have none, so an engine that keeps the
order exactly, as `embedded` does, shows what is left of it with as many senders. Each body carries a checksum.
"""

from __future__ import annotations

import argparse
import json
import sys
from statistics import mean

import msgspec

from lab.bench.order.run import measured
from lab.bench.order.workload import Faults, Load
from lab.bench.servers import scratch
from lab.bench.site import EMBEDDED, site
from lab.harness.keyspace import COPIES

BDQS, DEFAULT_HINT = "bdqs", "1"
SQS, REST = "sqs", "rest"


def main() -> int:
    options = parser().parse_args()
    attributes = dict(option.split("=", 1) for option in options.option)
    if options.engine != EMBEDDED:
        attributes["Engine"] = options.engine
    if options.engine == BDQS:
        attributes["OrderHint"] = options.order_hint
    load = msgspec.convert({**vars(options), "attributes": attributes}, Load)
    faults = msgspec.convert(vars(options), Faults)
    rows = []
    for number in range(options.repeat):
        nodes = COPIES if options.ring else 1
        with scratch("order") as directory, site(options.engine, options.processes, directory, nodes=nodes) as started:
            started.by_rest = options.client == REST
            rows.append(measured(load, started, options.seed + number, faults))
        print(json.dumps(rows[-1]), flush=True)
    print(msgspec.json.encode(load).decode())
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(f"{name:32} {mean(values):12,.4f}   ({min(values):,.4f} to {max(values):,.4f})")
    return 0


def parser() -> argparse.ArgumentParser:
    """Options of the load and its faults are named as their members, which have the defaults."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--engine", default=EMBEDDED)
    made.add_argument("--order-hint", default=DEFAULT_HINT, help="K of bdqs: a number, auto or inf; default: 1")
    made.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the queues")
    made.add_argument("--client", choices=(SQS, REST), default=SQS, help="rest: the REST API, through cns.client")
    made.add_argument("--processes", type=int, default=1, help="API processes")
    made.add_argument("--ring", action="store_true", help="three Cassandra nodes instead of one")
    made.add_argument("--repeat", type=int, default=3)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--fifo", action="store_true", help="one message group a queue")
    made.argument_default = argparse.SUPPRESS
    for name in ("queues", "senders", "receivers", "messages", "body-bytes"):
        made.add_argument(f"--{name}", type=int)
    made.add_argument("--visibility", dest="visibility_s", type=int, help="seconds")
    for name in ("send_delay", "receive_delay", "mttf", "mttr"):
        made.add_argument(f"--{name.replace('_', '-')}", dest=f"{name}_s", type=float, help="seconds")
    for name in ("drop", "quit"):
        made.add_argument(f"--{name}", dest=f"{name}_probability", type=float, help="a probability")
    return made


if __name__ == "__main__":
    sys.exit(main())
