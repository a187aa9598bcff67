"""Each series that alerts and dashboards use is on the metrics page of a running service, with their labels."""

from __future__ import annotations

import re
from typing import Any

from lab.harness.endpoints import Endpoint
from lab.harness.running import Up
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic
from tests.promql import dashboard_expressions, rule_expressions

CLUSTER = re.compile(r"cns_(cassandra|redis|clock|cache|reconcile|background|live|owned|queue_duplicate)_\w+")
AFTER_FAILURES = {"cns_delivery_attempts_failed_total", "cns_notifications_dead_lettered_total", "cns_audit_refused"}
AFTER_THE_FIRST_INGEST = {"cns_event_segments_unread_share"}
AFTER_FAN_OUTS = {"cns_fanout_seconds_bucket"}
AFTER_A_MINUTE = {"cns_queue_messages", "cns_queue_oldest_message_seconds", "cns_queue_messages_total"}
"""The counts of a queue are made once a minute; tests of the counts show them."""
ABSENT = AFTER_FAILURES | AFTER_THE_FIRST_INGEST | AFTER_FAN_OUTS | AFTER_A_MINUTE
OF_PROMETHEUS = {"up"}


def test_a_running_service_has_them(service: Up, sns: Any, topic: Topic, endpoint: Endpoint) -> None:
    topic.subscribe("http", endpoint.url)
    topic.publish("hello")
    endpoint.wait(accepted=1)
    error = None
    try:
        sns.get_topic_attributes(TopicArn=f"{topic.arn}x")
    except sns.exceptions.NotFoundException as caught:
        error = caught
    assert error is not None
    used: dict[str, set[str]] = {}
    for expression in [*rule_expressions(), *dashboard_expressions()]:
        for series in expression.series:
            used.setdefault(series.name, set()).update(series.labels)
    own = {
        name: labels
        for name, labels in used.items()
        if ":" not in name and not CLUSTER.fullmatch(name) and name not in ABSENT | OF_PROMETHEUS
    }
    assert len(own) > 30
    wait_until(lambda: not missing(service, own), lambda: str(missing(service, own)))


def missing(service: Up, used: dict[str, set[str]]) -> dict[str, set[str]]:
    """The series, or their labels, that the page lacks now."""
    shown: dict[str, set[str]] = {}
    for name, labels in service.samples():
        shown.setdefault(name, set()).update(label.partition("=")[0] for label in labels)
    return {name: labels for name, labels in used.items() if name not in shown or not labels <= shown[name]}
