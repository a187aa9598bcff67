"""The engines that the settings choose, and the start errors of a wrong choice."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cns_backend.engines import ChosenEngines, choose_engines
from cns_common.configuration.settings import Settings
from cns_common.errors import EXIT_SETTINGS_WRONG, StartError
from cqs.engines.embedded.engine import EmbeddedEngine

FULL = EmbeddedEngine.capabilities
FORM = {"own": FULL, "second": FULL, "plain": replace(FULL, update_body=False)}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ChosenEngines(("own", "second", "plain"), "own", "own")),
        ({"default_engine": "plain"}, ChosenEngines(("own", "second", "plain"), "plain", "own")),
        ({"internal_engine": "second"}, ChosenEngines(("own", "second", "plain"), "own", "second")),
        ({"engines": "second, plain,second"}, ChosenEngines(("second", "plain"), "second", "second")),
        (
            {"engines": "plain,own", "default_engine": "plain"},
            ChosenEngines(("plain", "own"), "plain", "own"),
        ),
    ],
)
def test_the_choice(given: dict[str, str], expected: ChosenEngines) -> None:
    assert choose_engines(Settings.model_validate(given), "own", FORM) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"engines": "own,absent"}, "CNS_ENGINES=absent: must be an engine that runs here: own, second, plain"),
        ({"default_engine": "absent"}, "CNS_DEFAULT_ENGINE=absent: must be an engine that runs here"),
        (
            {"engines": "own", "default_engine": "second"},
            "CNS_DEFAULT_ENGINE=second: must be an engine that runs here: own",
        ),
        ({"engines": "own", "internal_engine": "second"}, "CNS_INTERNAL_ENGINE=second: must be an engine that runs"),
        (
            {"internal_engine": "plain"},
            "CNS_INTERNAL_ENGINE=plain: must be another: the engine plain cannot have the internal queues",
        ),
        ({"engines": "plain"}, "CNS_INTERNAL_ENGINE=plain: must be another"),
    ],
)
def test_a_wrong_choice_ends_the_start(given: dict[str, str], said: str) -> None:
    with pytest.raises(StartError, match=said) as caught:
        choose_engines(Settings.model_validate(given), "own", FORM)
    assert caught.value.exit_code == EXIT_SETTINGS_WRONG
