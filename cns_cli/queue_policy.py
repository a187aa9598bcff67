"""The statement of a queue's policy that lets a topic send to it."""

from __future__ import annotations

import json
from typing import Any


def statement_for(queue_arn: str, topic_arn: str) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic_arn}},
    }


def with_statement(policy: str, statement: dict[str, Any]) -> str:
    """The stored policy ('': none) with the statement, which is added if it is missing."""
    document: dict[str, Any] = json.loads(policy) if policy else {"Version": "2012-10-17"}
    there = document.get("Statement", [])
    statements = there if isinstance(there, list) else [there]
    document["Statement"] = statements if statement in statements else [*statements, statement]
    return json.dumps(document)
