"""The queue attributes of the engines on Cassandra: accepted values as they are kept, and refused ones."""

from __future__ import annotations

import pytest

from cqs.engines.bdqs.consistency import QueueConsistency
from cqs.engines.bdqs.engine import BdqsEngine
from cqs.engines.cassieq.options import OPTIONS as CASSIEQ
from cqs.engines.options import EngineOption
from cqs.engines.pipes.options import OPTIONS as PIPES

ENGINES = {"bdqs": BdqsEngine.options, "cassieq": CASSIEQ, "pipes": PIPES}
KEPT = {
    ("bdqs", "OrderHint"): {"1": "1", "007": "7", "1000": "1000", "AUTO": "auto", "inf": "inf", "Inf": "inf"},
    ("bdqs", "Consistency"): {mode.value.upper(): mode.value for mode in QueueConsistency},
    ("cassieq", "BucketSize"): {"020": "20"},
    ("cassieq", "IdRange"): {"1": "1"},
    ("cassieq", "StrictFifo"): {"TRUE": "true", "false": "false"},
    ("pipes", "PipeSize"): {"1": "1", "050000": "50000"},
    ("pipes", "MaxPopWidth"): {"1000": "1000"},
    ("pipes", "PopMode"): {"Turns": "turns"},
    ("pipes", "StrictFifo"): {"SINGLE": "single"},
}
REFUSED = {
    ("bdqs", "OrderHint", "auto, inf or a number from 1 to 1000"): (
        *("", "0", "-1", "1001", "1.5", "many", "\u0663", " 1"),
    ),
    ("bdqs", "Consistency", "one of single, quorum, serial, all"): ("each",),
    ("cassieq", "BucketSize", ""): ("0", "1001", "\u0663"),
    ("cassieq", "IdRange", ""): ("-1",),
    ("cassieq", "StrictFifo", ""): ("yes",),
    ("pipes", "PipeSize", ""): ("0", "50001", "-1", "x", "\u00b2", ""),
    ("pipes", "MaxPopWidth", ""): ("1001",),
    ("pipes", "PopMode", ""): ("random",),
    ("pipes", "StrictFifo", ""): ("true",),
}


@pytest.mark.parametrize(
    ("option", "text", "kept"),
    [(ENGINES[engine][name], text, kept) for (engine, name), all_ in KEPT.items() for text, kept in all_.items()],
)
def test_kept(option: EngineOption, text: str, kept: str) -> None:
    assert option.check(text) == kept


@pytest.mark.parametrize(
    ("option", "text", "must"),
    [(ENGINES[engine][name], text, must) for (engine, name, must), texts in REFUSED.items() for text in texts],
)
def test_refused(option: EngineOption, text: str, must: str) -> None:
    with pytest.raises(ValueError, match=f"must be {must}"):
        option.check(text)


@pytest.mark.parametrize("option", [option for options in ENGINES.values() for option in options.values()])
def test_a_default_is_a_value(option: EngineOption) -> None:
    assert option.check(option.default) == option.default
