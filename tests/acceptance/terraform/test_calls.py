"""The calls that Terraform made for `main.tf`, made again: each answer has what the provider read in it.

`calls.jsonl` was recorded between Terraform 1.11.4 with provider 5.100.0 and the service while it applied `main.tf`,
changed it and destroyed it: action, parameters, answer. Of the reads of a resource each phase has the last one, with
the attributes that were set, as an empty plan needs them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botocore import xform_name
from botocore.exceptions import ClientError

from lab.harness.endpoints import Endpoint
from lab.harness.service import REGION, Service

CALLS = Path(__file__).with_name("calls.jsonl")
_NAME = re.compile("<[a-z]+>")


def test_recorded_calls(
    service: Service, stranger: dict[str, str], endpoint: Endpoint, new_name: Callable[[], str]
) -> None:
    clients = {name: service.client(name, **stranger) for name in ("sns", "sqs", "sts")}
    account, name = clients["sts"].get_caller_identity()["Account"], new_name()
    known = {
        "<account>": account,
        "<name>": name,
        "<sns>": f"arn:aws:sns:{REGION}:{account}",
        "<sqs>": f"arn:aws:sqs:{REGION}:{account}",
        "<queues>": f"{service.url}/{account}",
        "<web>": endpoint.url,
    }
    for line in CALLS.read_text().splitlines():
        client, action, params, answer = json.loads(_NAME.sub(lambda found: known.get(found[0], found[0]), line))
        expected = {"Error": None, **answer}
        assert _part(_call(clients[client], action, params), expected, known) == expected, line
        if params.get("Protocol") == "http":
            endpoint.wait(confirmed=1)


def _call(client: Any, action: str, params: dict[str, Any]) -> Any:
    try:
        return getattr(client, xform_name(action))(**params)
    except ClientError as error:
        return error.response


def _part(answer: Any, expected: Any, known: dict[str, str]) -> Any:
    """The part of an answer that is expected. A name that is not known yet becomes the name of the value there."""
    if isinstance(expected, dict) and isinstance(answer, dict):
        return {name: _part(answer.get(name), each, known) for name, each in expected.items()}
    if isinstance(expected, str) and isinstance(answer, str) and _NAME.fullmatch(expected):
        known[expected] = answer
        return expected
    return answer
