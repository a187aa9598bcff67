"""docs/conformance.md says what the API tables say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest

import cns.api
import cqs.api
from cns_common.aws.call import Operation
from cns_common.aws.protocol.models import load_service
from cns_common.aws.protocol.names import ServiceName

PAGE = (Path(__file__).parents[3] / "docs" / "conformance.md").read_text()
TABLES: dict[ServiceName, Mapping[str, Operation]] = {
    "sqs": cqs.api.operations(Mock()),
    "sns": cns.api.operations(Mock()),
}


@pytest.mark.parametrize("service", TABLES)
def test_the_page_and_the_table_agree(service: ServiceName) -> None:
    section = PAGE.split(f"## {service.upper()} ")[1].split("\n## ")[0]
    said = dict(re.findall(r"^\| (\w+) \| (answered|still to come) \|$", section, re.MULTILINE))
    assert said.keys() == load_service(service).operations.keys()
    assert {name for name, answer in said.items() if answer == "answered"} == TABLES[service].keys()


def test_the_page_names_the_extensions() -> None:
    section = PAGE.split("## Extensions")[1].split("\n## ")[0]
    said = set(re.findall(r"^\| `(\w+)` \| AWS JSON 1.0, `X-Amz-Target: AmazonSQS.\1` \|", section, re.MULTILINE))
    assert said == cqs.api.extensions(Mock()).keys()
    assert said.isdisjoint(load_service("sqs").operations)
