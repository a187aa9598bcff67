"""Set-up of every pytest run: the service's logging, an interruptible run that ends, records of the shown rules and
failures."""

from __future__ import annotations

import os
import signal

import hypothesis
import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG

from cns_common.logs import set_up_logs
from cns_pytest import http
from lab.harness.waiting import PATIENCE_S
from tests.hung_tests import HungTests
from tests.marks import examples
from tests.reports import Reports
from tests.spec.record import Recorder

XDIST_WORKER = "PYTEST_XDIST_WORKER"
"""A variable of pytest-xdist: the name of this process among those that share a run."""


hypothesis.settings.register_profile("stalling machine", deadline=None, derandomize=True, max_examples=examples(100))


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("stalling machine")
    for limit in ("connect", "read", "write", "pool"):  # httpx gives up after 5 s: machines stall for as long
        setattr(DEFAULT_TIMEOUT_CONFIG, limit, PATIENCE_S)
    http.ANSWER_S = PATIENCE_S
    set_up_logs("info", "tests")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background processes ignore it
    if XDIST_WORKER not in os.environ:
        config.pluginmanager.register(Reports(), "run-reports")
    config.pluginmanager.register(HungTests(), "hung-tests")
    words = [*config.invocation_params.args, os.environ.get(XDIST_WORKER, "")]
    config.pluginmanager.register(Recorder(words), "spec-recorder")
