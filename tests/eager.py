"""A pytest plugin that runs background work twenty times as often: it finds tests that hope that none comes in between.

    PYTEST_ADDOPTS="-p tests.eager" make test

Maintenance that is due every 15 s rarely meets a test that takes one second, except on a slow machine. Services that a
test starts as processes keep their intervals.
"""

from __future__ import annotations

import sys

PACKAGES = ("cns", "cqs", "cns_workers", "cns_backend", "cns_server", "cns_common")
SUFFIX = "INTERVAL_S"
FACTOR = 20


def pytest_collection_finish() -> None:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES:
            for constant, value in list(vars(module).items()):
                if constant.endswith(SUFFIX) and isinstance(value, float):
                    setattr(module, constant, value / FACTOR)
