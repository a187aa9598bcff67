"""`make test`: every stage in turn, its time printed; the first failure does not keep the others from running.

Cassandra and Redis are started before the stages that need them; what was not running before is stopped at the end.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests import failures, servers
from tests.spec.record import RECORDS

BIN = Path(sys.executable).parent
PYTEST = [sys.executable, "-m", "pytest", "-q"]
IN_TWO = ["-n2", "--dist=loadfile"]
"""Where no test looks at how long something takes: two processes, each with files, and a service, of its own."""
SIDE_BY_SIDE = [*PYTEST, *IN_TWO]

OVER_HTTP = [
    "tests/acceptance/test_sns_boto3.py",
    "tests/acceptance/test_sns_topics.py",
    "tests/acceptance/test_sns_many.py",
    "tests/acceptance/test_sns_retries.py",
    "tests/acceptance/test_up.py::test_a_stop_lets_work_end",
    "tests/acceptance/test_up_modes.py::test_without_auth_the_key_names_the_account",
    "tests/acceptance/test_up_modes.py::test_tls",
]
"""What passes through the queue port, a second time with its other driver."""

TIMED = [f"tests/acceptance/{name}.py" for name in ("test_fairness", "test_sns_lanes", "test_up")]
"""What looks at how long something takes, which nothing else may run beside."""

OTHER_LANGUAGES = "tests/acceptance/test_other_languages.py"
VALIDATORS = "tests/acceptance/test_foreign_validators.py"
RULE_ENGINE = "tests/filters/test_against_ruler.py"


def ignoring(*paths: str) -> list[str]:
    return [f"--ignore={path}" for path in paths]


STAGES: tuple[tuple[str, list[str]], ...] = (
    ("format", [str(BIN / "ruff"), "format", "--check", "--quiet", "."]),
    ("lint", [str(BIN / "ruff"), "check", "--quiet", "."]),
    ("layers", [str(BIN / "lint-imports")]),
    ("types", [str(BIN / "mypy")]),
    ("compose", [str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"]),
    ("unit", [*SIDE_BY_SIDE, "tests/unit", "tests/protocol", "tests/static", *ignoring(RULE_ENGINE), "tests/filters"]),
    ("servers", [sys.executable, "-m", "tests.servers"]),
    ("conformance", [*SIDE_BY_SIDE, "tests/conformance"]),
    ("integration", [*SIDE_BY_SIDE, "tests/integration"]),
    ("programs", [sys.executable, "-m", "deploy.servers", "install", "haproxy", "exim", "chromium"]),
    ("acceptance", [*SIDE_BY_SIDE, *ignoring(OTHER_LANGUAGES, VALIDATORS, *TIMED), "tests/acceptance"]),
    ("acceptance-timed", [*PYTEST, *TIMED]),
    ("browser", [*PYTEST, "tests/browser"]),
    ("clients", [*PYTEST, OTHER_LANGUAGES, VALIDATORS, RULE_ENGINE]),
    ("acceptance-http", ["env", "CNS_QUEUE_PORT=http", *PYTEST, *OVER_HTTP]),
    ("acceptance-cluster", [sys.executable, "-m", "tests.acceptance.over_cluster", *IN_TWO]),
    ("celery", [*PYTEST, "tests/celery_host"]),
    ("pipeline", [*PYTEST, "tests/pipeline"]),
    ("faults", [*PYTEST, "-m", "not ring", "tests/faults"]),
    ("tools", [*PYTEST, "tests/bench"]),
    ("load", [sys.executable, "-m", "bench.run", "--quick"]),
    ("rules", [sys.executable, "-m", "tests.spec.page"]),
)
NEED_SERVERS = {"acceptance-cluster", "conformance", "integration", "acceptance", "celery", "faults", "load"}


def main(names: list[str]) -> int:
    chosen = set(names or dict(STAGES))
    if not names:
        shutil.rmtree(RECORDS, ignore_errors=True)  # what earlier runs showed
    chosen |= {"servers"} if chosen & NEED_SERVERS else set()
    ours = servers.names_to_start() if "servers" in chosen else []
    before = servers.running(ours)
    try:
        return _run(chosen)
    finally:
        servers.stop(servers.running(ours) - before)


def _run(chosen: set[str]) -> int:
    times: list[tuple[str, float, int]] = []
    failures.begin()
    for name, command in STAGES:
        if name not in chosen:
            continue
        print(f"== {name}", flush=True)
        started = time.monotonic()
        code = subprocess.run(command, check=False).returncode
        times.append((name, time.monotonic() - started, code))
    print("\n" + failures.found())
    print("stage           seconds  result")
    for name, seconds, code in times:
        print(f"{name:<15} {seconds:7.1f}  {'ok' if code == 0 else f'FAILED ({code})'}")
    failed = sum(code != 0 for _, _, code in times)
    print(f"stages: {len(times) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
