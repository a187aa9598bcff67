"""Every operation of the service models is answered, and no other but those that docs/differences.md names."""

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

DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"
TABLES: dict[ServiceName, Mapping[str, Operation]] = {
    "sqs": cqs.api.operations(Mock()),
    "sns": cns.api.operations(Mock()),
}


@pytest.mark.parametrize("service", TABLES)
def test_every_operation_is_answered(service: ServiceName) -> None:
    assert TABLES[service].keys() == load_service(service).operations.keys()


def test_the_differences_name_the_extensions() -> None:
    section = DIFFERENCES.read_text().split("## Extensions")[1].split("\n## ")[0]
    said = set(re.findall(r"^\| `(\w+)` \| AWS JSON 1.0, `X-Amz-Target: AmazonSQS.\1` \|", section, re.MULTILINE))
    assert said == cqs.api.extensions(Mock()).keys()
    assert said.isdisjoint(load_service("sqs").operations)
