"""Attacks on the workers by hostile web endpoints: `python -m tests.attacks.webhooks [NAME…]`.

Starts a `cns up` and an endpoint of its own, publishes to many subscriptions of that endpoint at once, and prints a
table: growth of the worker's memory and the p99 of normal signed calls beside each attack. Ends with 1 if a bar of
`tests.attacks.measure` is missed.
"""

from __future__ import annotations

import sys
import tempfile
import uuid
from functools import partial
from pathlib import Path
from typing import Any

from lab.harness.running import Up, running
from lab.harness.waiting import wait_until
from tests.attacks.hostile_endpoint import FLOOD_BYTES, FLOODS, HostileEndpoint, hostile_endpoint
from tests.attacks.measure import LatencyProbe, Outcome, Tally, measure, probing, resident_bytes, table

SUBSCRIPTIONS = 40
"""Notifications answered by a flood at the same time."""
CALLS_BESIDE = 300


def attack(service: Up, endpoint: HostileEndpoint, probe: LatencyProbe, name: str, n: int, calls: int) -> Tally:
    """One publish to `n` subscriptions whose endpoint answers with the flood of this name."""
    sns: Any = service.client("sns")
    topic_arn = sns.create_topic(Name=f"attack-{uuid.uuid4().hex[:8]}")["TopicArn"]
    for number in range(n):
        url = f"{endpoint.url}/{name}/{number}"
        sns.subscribe(TopicArn=topic_arn, Protocol="http", Endpoint=url, ReturnSubscriptionArn=True)
    wait_until(lambda: _confirmed(sns, topic_arn) == n)
    before = (endpoint.floods, endpoint.sent_bytes, endpoint.hang_ups)
    sns.publish(TopicArn=topic_arn, Message="flood")
    wait_until(lambda: endpoint.floods >= before[0] + n)
    probe.wait_for_calls(calls)
    sns.delete_topic(TopicArn=topic_arn)
    floods, sent_bytes, hang_ups = endpoint.floods, endpoint.sent_bytes, endpoint.hang_ups
    return Tally(connections=floods - before[0], sent_bytes=sent_bytes - before[1], ended=hang_ups - before[2])


def _confirmed(sns: Any, topic_arn: str) -> int:
    return int(sns.get_topic_attributes(TopicArn=topic_arn)["Attributes"]["SubscriptionsConfirmed"])


def run(
    directory: Path,
    names: list[str],
    n: int = SUBSCRIPTIONS,
    flood_bytes: int = FLOOD_BYTES,
    calls: int = CALLS_BESIDE,
) -> list[Outcome]:
    """Run the attacks one after the other on one service with default settings."""
    outcomes = []
    with running(directory / "data") as service:
        sns: Any = service.client("sns")

        def confirm(topic_arn: str, token: str) -> None:
            sns.confirm_subscription(TopicArn=topic_arn, Token=token)

        with (
            hostile_endpoint(confirm, flood_bytes) as endpoint,
            probing(service.url, service.environment) as probe,
        ):
            probe.wait_for_calls(calls)
            worker = service.pids()["worker"]
            start_bytes = resident_bytes(worker)
            for name in names:
                outcomes.append(
                    measure(
                        name,
                        partial(attack, service, endpoint, probe, name, n, calls),
                        pid=worker,
                        start_bytes=start_bytes,
                        probe=probe,
                        said=lambda: service.process.log.stat().st_size,
                    )
                )
                print(f"{name}: {', '.join(outcomes[-1].faults) or 'ok'}", file=sys.stderr, flush=True)
    return outcomes


def main(names: list[str]) -> int:
    unknown = set(names) - set(FLOODS)
    if unknown:
        print(f"no such attack: {', '.join(sorted(unknown))}; there are {', '.join(FLOODS)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as directory:
        outcomes = run(Path(directory), names or list(FLOODS))
    print(table(outcomes))
    return 1 if any(outcome.faults for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
