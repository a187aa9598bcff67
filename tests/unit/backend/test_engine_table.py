"""The table "Which engine can what" of docs/engines.md says what the engines say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from cns_backend.engines import CLUSTER_ENGINES
from cns_common.durations import DAY_MS
from cqs.engines.bdqs import BdqsEngine
from cqs.engines.cassieq import CassieqEngine
from cqs.engines.cluster import ClusterEngine
from cqs.engines.contract import Capabilities
from cqs.engines.embedded.engine import EmbeddedEngine
from cqs.engines.options import EngineOption
from cqs.engines.pipes import PipesEngine
from cqs.internal_queues import check_internal_engine

DOCUMENT = Path(__file__).parents[3] / "docs" / "engines.md"
CAPABILITIES: Mapping[str, Capabilities] = {
    "embedded": EmbeddedEngine.capabilities,
    **{name: kind().capabilities for name, kind in CLUSTER_ENGINES.items()},
}
OPTIONS: Mapping[str, Mapping[str, EngineOption]] = {
    "embedded": EmbeddedEngine.options,
    "cqs": ClusterEngine.options,
    "bdqs": BdqsEngine.options,
    "pipes": PipesEngine.options,
    "cassieq": CassieqEngine.options,
}


def rows() -> dict[str, dict[str, str]]:
    """Cells by the row's capability, or its first words, and the engine."""
    lines = DOCUMENT.read_text().partition("## Which engine can what")[2].partition("\n## ")[0].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    names = [name.strip("`") for name in table[0][1:]]
    return {_key(row[0]): dict(zip(names, row[1:], strict=True)) for row in table[2:]}


def _key(cell: str) -> str:
    return cell.rpartition("(`")[2].removesuffix("`)") if cell.endswith("`)") else cell


def can_be_internal(name: str) -> bool:
    try:
        check_internal_engine(name, CAPABILITIES[name])
    except ValueError:
        return False
    return True


def test_every_engine_has_a_column() -> None:
    assert [*rows()["form"]] == [*CAPABILITIES]


@pytest.mark.parametrize("capability", ["fifo", "fair", "exact_counts", "update_body", "atomic_settle"])
def test_what_engines_can(capability: str) -> None:
    said = {name: cell.startswith("yes") for name, cell in rows()[capability].items()}
    assert said == {name: getattr(can, capability) for name, can in CAPABILITIES.items()}


def test_declared_order() -> None:
    assert rows()["order"] == {name: can.order for name, can in CAPABILITIES.items()}


def test_longest_delays() -> None:
    said = rows()["max_delay_ms"]
    assert said == {name: f"{can.max_delay_ms // DAY_MS} days" for name, can in CAPABILITIES.items()}


def test_who_can_have_the_internal_queues() -> None:
    said = {name: cell == "yes" for name, cell in rows()["CNS_INTERNAL_ENGINE"].items()}
    assert said == {name: can_be_internal(name) for name in CAPABILITIES}


@pytest.mark.parametrize("live", [True, False])
def test_options(live: bool) -> None:
    said = rows()["options, live" if live else "options, set at creation"]
    for name, options in OPTIONS.items():
        named = [option.name for option in options.values() if option.live == live]
        assert said[name] == (", ".join(f"`{one}`" for one in named) or "–"), name
