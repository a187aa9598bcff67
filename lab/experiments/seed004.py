"""The five experiments of seed 004 (BDQS), section V, on `bdqs`: API processes stand for its virtual machines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from lab.bench.drawing import draw
from lab.bench.order.figures import Row
from lab.bench.order.run import measured
from lab.bench.order.workload import NO_FAULTS, Faults, Load
from lab.bench.site import site
from lab.experiments.report import (
    AWAY,
    CONDITIONAL,
    CONSISTENCY,
    DISORDER,
    FAILED_CALLS,
    POP,
    POP_MS,
    RATES,
    SEND,
    SEND_MS,
    SENT_TWICE,
    STATEMENTS_CELLS,
    TWICE,
    TWICE_BY_SENDERS,
    Claim,
    Report,
    claim,
    loss,
    lost,
    measured_each,
    named,
    no_loss,
    number,
    table,
    untestable,
)
from lab.harness.keyspace import COPIES

ENGINE = "bdqs"
TWO_CORES = "all processes, Cassandra and the clients share two cores"
RESPONSIVE_MS = 200
BELOW_MAX = 0.8
K_ONE = {"Engine": ENGINE, "OrderHint": "1"}
MTTR_S = 1.0
NOISE_MAX = 1.3
LEAST_OF_FEW_QUEUES = 0.5


def _measured(scratch: Path, processes: int, loads: Mapping[str, Load], seed: int, nodes: int = 1) -> dict[str, Row]:
    """All loads on one service, in turn."""
    with site(ENGINE, processes, scratch, nodes=nodes) as started:
        return measured_each(loads, started, seed)


def rate(scratch: Path, seed: int) -> Report:
    """Experiment 1: the rates against the number of queues and of processes."""
    processes, queues = (1, 2, 4), (1, 4, 16, 64)
    runs: dict[str, Row] = {}
    for n in processes:
        loads = {f"{n}, {q}": Load(queues=q, messages=30, attributes=K_ONE) for q in queues}
        runs |= _measured(scratch / f"{n}", n, loads, seed)
    curves = {
        f"{what}, N = {n}": [runs[f"{n}, {q}"][name] for q in queues]
        for what, name in (("send", SEND), ("receive", POP))
        for n in processes
    }
    least, most, larger = queues[0], queues[-2], queues[-1]
    rises = all(runs[f"{n}, {most}"][SEND] > runs[f"{n}, {least}"][SEND] for n in processes)
    growth = max(runs[f"{n}, {larger}"][SEND] / runs[f"{n}, {most}"][SEND] for n in processes)
    slower = [name for name, row in runs.items() if row[POP] >= row[SEND]]
    return Report(
        title="Rates relative to one queue",
        setup="Experiment 1. Tsend = Trecv = 3, m = 30 (100), L = 2,048 B, no delays, K = 1; N API processes (10 to 70"
        " VMs), Q queues (20 to 1,000).",
        table=table("N, Q", runs, RATES),
        drawings={"experiment-rate.svg": draw("Rate relative to one queue", queues, curves, 1.0)},
        claims=[
            claim(
                "Q54, Q55",
                "Throughput rises with the workload, then saturates",
                f"send/s at {most} queues above {least}: {rises}; at {larger} against {most}: at most ×{growth:.2f}",
                holds=rises and growth < 1.5,
            ),
            claim(
                "Q55",
                "Receive+Delete is slower than Send",
                f"in {len(runs) - len(slower)} of {len(runs)} runs",
                holds=not slower,
            ),
            untestable("Q54", "Throughput is linear in the number of machines", TWO_CORES),
        ],
    )


def queues(scratch: Path, seed: int) -> Report:
    """Section I: "up to 70 nodes and 1,000 queues". As many messages, spread over more and more queues."""
    counts, total = (10, 100, 1000), 3_000
    runs: dict[str, Row] = {}
    for nodes in (1, COPIES):
        loads = {
            f"{nodes}, {q:,}": Load(queues=q, senders=1, receivers=1, messages=total // q, attributes=K_ONE)
            for q in counts
        }
        runs |= _measured(scratch / f"{nodes}", 2, loads, seed, nodes)
    few, many = f"{counts[0]:,}", f"{counts[-1]:,}"
    ratios = {nodes: runs[f"{nodes}, {many}"][SEND] / runs[f"{nodes}, {few}"][SEND] for nodes in (1, 3)}
    failed = sum(row["failed calls"] for row in runs.values())
    return Report(
        title="Up to 1,000 queues",
        setup=f"Q = 10 to 1,000 with {total:,} messages in all, a sender and a receiver for each queue, L = 2,048 B, no"
        " delays, K = 1; two API processes, one Cassandra node and a ring of three with three copies.",
        table=table("nodes, Q", runs, {**RATES, **CONSISTENCY, **FAILED_CALLS}),
        claims=[
            claim(
                "Q5",
                "1,000 queues work, on one node and on three",
                f"{loss(runs)}; {failed:,.0f} calls failed",
                holds=not failed and not lost(runs),
            ),
            claim(
                "Q5",
                "… without a cost of the number of queues",
                f"send rate of {many} queues against {few}: ×{ratios[1]:.2f} on one node, ×{ratios[3]:.2f} on three",
                holds=min(ratios.values()) > LEAST_OF_FEW_QUEUES,
            ),
            untestable("Q5", "70 nodes", TWO_CORES),
        ],
    )


def response(scratch: Path, seed: int) -> Report:
    """Experiment 2: the response times against the rate."""
    delays_s = {1.6: 5, 0.8: 8, 0.4: 10, 0.2: 15, 0.1: 15, 0.0: 15}
    runs: dict[str, Row] = {}
    for n in (1, 2):
        loads = {
            f"{n}, {delay_s:g}": Load(
                queues=64, messages=m, send_delay_s=delay_s, receive_delay_s=delay_s, attributes=K_ONE
            )
            for delay_s, m in delays_s.items()
        }
        runs |= _measured(scratch / f"{n}", n, loads, seed)
    claims = []
    for what, rate_name, ms_name in (("send", SEND, SEND_MS), ("receive", POP, POP_MS)):
        highest = {n: max(row[rate_name] for name, row in runs.items() if name[0] == n) for n in "12"}
        calm = [row[ms_name] for name, row in runs.items() if row[rate_name] < BELOW_MAX * highest[name[0]]]
        ends = {n: (runs[f"{n}, 1.6"][ms_name], runs[f"{n}, 0"][ms_name]) for n in "12"}
        claims += [
            claim(
                "Q57",
                f"Below 80 % of the highest rate the mean response ({what}) is below 200 ms",
                f"at most {max(calm):.0f} ms in {len(calm)} runs",
                holds=max(calm) < RESPONSIVE_MS,
            ),
            claim(
                "Q56",
                f"Towards saturation the response time ({what}) rises steeply (M/M/k)",
                "; ".join(f"N = {n}: {low:.0f} ms at δ = 1.6 s, {high:.0f} ms at 0" for n, (low, high) in ends.items()),
                holds=all(high > 3 * low for low, high in ends.values()),
            ),
        ]
    return Report(
        title="Response time against rate",
        setup="Experiment 2. Q = 64, T = 3, δsend = δrecv from 1.6 s to 0, K = 1, L = 2,048 B; N = 1 and 2 API"
        " processes.",
        table=table("N, δ in s", runs, RATES),
        claims=claims,
    )


def hints(scratch: Path, seed: int) -> Report:
    """Experiment 3: duplicates and order by K and by the number of receivers of a queue."""
    ks, receivers = ("1", "2", "3", "auto", "inf"), (1, 2, 3)
    loads = {
        f"{k}, {n}": Load(
            queues=10,
            messages=50,
            receivers=n,
            receive_delay_s=0.05,
            attributes={"Engine": ENGINE, "OrderHint": k},
        )
        for k in ks
        for n in receivers
    }
    runs = _measured(scratch, 2, loads, seed)
    alone = max(runs[f"{k}, 1"][TWICE] for k in ks)
    rise = [runs[f"1, {n}"][TWICE] for n in receivers]
    by_k = [runs[f"{k}, 3"][TWICE] for k in ("1", "2", "3", "inf")]
    unordered, messages = runs["inf, 3"], runs["1, 3"]["messages"]
    ratio = unordered[AWAY] / max(runs["3, 3"][AWAY], 1e-9)
    return Report(
        title="Order and duplicates by K",
        setup="Experiment 3. N = 2, Q = 10 (400), Tsend = 3, m = 50 (100), L = 2,048 B, δrecv = 0.05 s (1 s). K = inf,"
        " one of the 1,000 oldest at random, is the system without order: 150 messages are in a queue. What overlapping"
        " sends and receives alone move is in all rows.",
        table=table("K, Trecv", runs, {**RATES, **CONSISTENCY}),
        claims=[
            no_loss("Q59, Q60", "No loss", runs),
            claim("Q60", "Hardly a duplicate with one receiver", f"at most {alone:.2%}", holds=alone <= 0.01),
            claim(
                "Q60",
                "With more receivers, more duplicates (K = 1)",
                ", ".join(f"{value:.2%}" for value in rise),
                holds=rise[0] <= rise[1] <= rise[2] and rise[2] > 0,
            ),
            claim(
                "Q60",
                "The more order, the more duplicates (Trecv = 3; K = 1, 2, 3, inf)",
                ", ".join(f"{value:.2%}" for value in by_k),
                holds=by_k[0] > by_k[-1] and all(map(_falls, by_k, by_k[1:], [messages] * 3)),
            ),
            claim(
                "Q60",
                "Without order about 50 % are out of order",
                f"{unordered[DISORDER]:.0%}",
                holds=unordered[DISORDER] >= 0.4,
            ),
            claim(
                "Q60",
                "K = 3: the displacement is an order of magnitude smaller than without order",
                f"{runs['3, 3'][AWAY]:.2f} and {unordered[AWAY]:.2f}: ×{ratio:.1f}",
                holds=ratio >= 10,
            ),
            untestable("Q59", "Amazon SQS as the rival", "no outside service is called; K = inf stands for it"),
        ],
    )


def drops(scratch: Path, seed: int) -> Report:
    """Experiment 4: calls and answers that are lost, and receivers that quit."""
    probabilities = (0.0, 0.0001, 0.001, 0.01, 0.1)
    load = Load(queues=16, messages=50, visibility_s=5, attributes=K_ONE)
    fifo = Load(queues=16, messages=10, visibility_s=5, fifo=True, attributes={"Engine": "cqs"})
    of_runs = {
        **{f"drop {p:g}": (load, Faults(drop_probability=p)) for p in probabilities},
        **{f"quit {p:g}": (load, Faults(quit_probability=p)) for p in probabilities[1:]},
        "drop 0.1, FIFO on cqs": (fifo, Faults(drop_probability=0.1)),
    }
    with site(ENGINE, 2, scratch) as started:
        runs = {name: measured(named(one, name), started, seed, faults) for name, (one, faults) in of_runs.items()}
    calm, rough = runs["drop 0"], runs["drop 0.1"]
    low = [runs[f"{what} {p:g}"] for what in ("drop", "quit") for p in probabilities[1:-1]]
    slower = rough[SEND] / calm[SEND]
    by_senders, deduplicated = rough[TWICE_BY_SENDERS], runs["drop 0.1, FIFO on cqs"][TWICE_BY_SENDERS]
    return Report(
        title="Lost calls and receivers that quit",
        setup="Experiment 4. N = 2, Q = 16 (400), T = 3, m = 50 (100), L = 2,048 B, no delays, K = 1, visibility"
        " timeout 5 s (10 s). A client repeats a send or delete without an answer at once. λ counts repeated"
        " deliveries; what a sender sent twice is apart.",
        table=table(
            "fault, p",
            runs,
            {
                **RATES,
                **CONSISTENCY,
                **SENT_TWICE,
                "faults": lambda row: f"{row['dropped calls'] + row['receivers that quit']:,.0f}",
            },
        ),
        claims=[
            no_loss("Q61, Q62", "No loss at any p", runs),
            _slower(slower, max(row[SEND] for row in low) / min(row[SEND] for row in low)),
            claim(
                "Q62",
                "Duplicates and order stay as they are up to p = 0.01",
                f"λ {calm[TWICE]:.2%} without, at most {max(row[TWICE] for row in low):.2%};"
                f" displacement {calm[AWAY]:.2f}, at most {max(row[AWAY] for row in low):.2f}",
                holds=max(row[AWAY] for row in low) < 3 * max(calm[AWAY], 0.5),
            ),
            claim(
                "Q62",
                "… and degrade at p = 0.1",
                f"λ {rough[TWICE]:.2%}, displacement {rough[AWAY]:.2f}",
                holds=rough[AWAY] > 2 * calm[AWAY],
            ),
            claim(
                "Q65",
                "Senders that fail send duplicates, in proportion to p",
                f"{by_senders:.2%} at p = 0.1, {runs['drop 0.01'][TWICE_BY_SENDERS]:.2%} at 0.01; a FIFO queue:"
                f" {deduplicated:.2%}",
                holds=by_senders > 0.02 and deduplicated == 0,
            ),
        ],
    )


def _slower(ratio: float, noise: float) -> Claim:
    """`noise` is the ratio of the rates of runs that have hardly a fault."""
    stated, found = "Slightly slower at p = 0.1", f"send rate ×{ratio:.2f}"
    if noise > NOISE_MAX:
        return Claim("Q62", stated, found, f"not testable here: runs with hardly a fault differ by ×{noise:.1f}")
    return claim("Q62", stated, found, holds=0.6 < ratio < 1)


def kills(scratch: Path, seed: int, *, on_ring: bool = False) -> Report:
    """Experiment 5: API processes that are killed and start again."""
    mttf_s = (5.0, 15.0, 45.0, 0.0)
    runs: dict[str, Row] = {}
    with site(ENGINE, 3, scratch, nodes=COPIES if on_ring else 1) as started:
        for mode, each_s in (*[("single", each_s) for each_s in mttf_s], ("quorum", mttf_s[0])):
            name = f"{mode}, {f'{each_s:g}' if each_s else 'none'}"
            load = Load(
                queues=8,
                messages=40,
                send_delay_s=0.25,
                receive_delay_s=0.3,
                visibility_s=5,
                attributes={**K_ONE, "Consistency": mode},
            )
            faults = Faults(mttf_s=each_s, mttr_s=MTTR_S) if each_s else NO_FAULTS
            runs[name] = measured(named(load, name), started, seed, faults)
            started.start(*[api for api in started.apis if not api.is_running()])
    calm, rough = runs["single, none"], runs[f"single, {mttf_s[0]:g}"]
    return Report(
        title="Processes that are killed",
        setup="Experiment 5. N = 3 API processes (50 VMs), Q = 8 (200), T = 3, m = 40 (100), δsend = 0.25 s (0.5 s),"
        " δrecv = 0.3 s (2 s), K = 1, visibility timeout 5 s; SIGKILL after MTTF in the mean, started again"
        f" {MTTR_S:g} s later, and ready some seconds after that (100, 1,000, 10,000 s and 10 s: a run lasts half"
        " a minute). Clients go to the next process."
        + ("" if on_ring else " One Cassandra node, which is not killed."),
        table=table(
            "consistency, MTTF in s",
            runs,
            {**RATES, **CONSISTENCY, **SENT_TWICE, "kills": number("kills")},
        ),
        claims=_kill_claims(runs, calm, rough, on_ring=on_ring),
    )


def _kill_claims(runs: dict[str, Row], calm: Row, rough: Row, *, on_ring: bool) -> list[Claim]:
    send, pop = rough[SEND] / calm[SEND], rough[POP] / calm[POP]
    claims = [
        no_loss("Q63, Q64", "No loss at any MTTF", runs),
        claim("Q64", "Sends are hardly affected", f"send rate ×{send:.2f} at the lowest MTTF", holds=send > 0.8),
        claim(
            "Q64", "Receives get slower the more often servers fail", f"receive+delete rate ×{pop:.2f}", holds=pop < 1
        ),
        claim(
            "Q64",
            "Duplicates and order get worse, and stay acceptable",
            f"λ {calm[TWICE]:.2%} → {rough[TWICE]:.2%}, displacement {calm[AWAY]:.2f} → {rough[AWAY]:.2f}",
            holds=rough[AWAY] >= calm[AWAY] and rough[TWICE] < 0.1,
        ),
    ]
    if not on_ring:
        claims.append(
            untestable("Q63", "R = W = 1 differs from a quorum", "one node has one replica; with `--ring` it has")
        )
    return claims


def consistency(scratch: Path, seed: int) -> Report:
    """Future work of the paper: other combinations of consistency and availability, on a ring of three."""
    modes = ("single", "quorum", "serial", "all")
    loads = {mode: Load(queues=4, messages=20, attributes={**K_ONE, "Consistency": mode}) for mode in modes}
    runs = _measured(scratch, 2, loads, seed, COPIES)
    single, quorum, serial, everywhere = (runs[mode] for mode in modes)
    return Report(
        title="Consistency against rate",
        setup="Three Cassandra nodes with three copies of each row, N = 2, Q = 4, T = 3, m = 20, L = 2,048 B, no"
        " delays, K = 1. Which go on without one and two of the nodes: `tests/faults/test_ring_consistency.py`.",
        table=table("Consistency", runs, {**RATES, **CONSISTENCY, **STATEMENTS_CELLS}),
        claims=[
            no_loss("Q68", "No loss in any", runs),
            claim(
                "Q68",
                "A consistent queue (`serial`) delivers nothing twice; one of a single replica does",
                f"λ {single[TWICE]:.2%} single, {quorum[TWICE]:.2%} quorum, {serial[TWICE]:.2%} serial,"
                f" {everywhere[TWICE]:.2%} all",
                holds=not serial[TWICE] and single[TWICE] > 0,
            ),
            claim(
                "Q68",
                "… and costs more",
                f"{serial[CONDITIONAL]:.1f} conditional statements a message, {single[CONDITIONAL]:.1f} without;"
                f" receive+delete {serial[POP]:,.0f}/s against {single[POP]:,.0f}/s",
                holds=serial[POP] < single[POP] and serial[CONDITIONAL] > single[CONDITIONAL],
            ),
        ],
    )


def _falls(before: float, after: float, messages: float) -> bool:
    """Whether a share of so many messages falls or stays, but for twice the noise of counting."""
    return (after - before) * messages <= 2 * math.sqrt(before * messages)
