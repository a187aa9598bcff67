"""`make test` and `make test-all`: stages with their times. After a failed stage the others still run.

    python -m tests.run_stages [--all] [STAGE …]

`make test` is the gate: all fast checks, the embedded form, and a thin slice of everything else (tests marked `slice`).
`make test-all` (`--all`) runs every test but those of stages that run only by their name: the acceptance tests on the
cluster form and over the HTTP queue port, fault rounds and a quick bench as well. `make test-ring`, `test-clients` and
`test-containers` name these stages, as `test-pythons` does those of each Python, and `make release-check` runs all.

Three stages run at a time, since many tests wait more than they compute; the bench runs alone. Each stage of pytest is
one process: a process costs 3 CPU seconds before its first test. What a stage prints is shown when it ends, and
meanwhile is in build/stages. Files of tests are kept in memory where there is room.

Cassandra and Redis are started first where a stage needs them; what was not running before is stopped at the end. Parts
that are missing and cannot be installed end in lines "not run: …" with the command that installs them
(`lab.harness.parts`); with `CI` set they are failures.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from lab.harness import servers
from lab.harness.parts import MISSING, provide
from lab.harness.pythons import VERSIONS, environment
from tests import reports
from tests.marks import ALL
from tests.spec.record import RECORDS

BIN = Path(sys.executable).parent
PYTEST = (sys.executable, "-m", "pytest", "-q")
AT_A_TIME = 3
CASSANDRA = "org.apache.cassandra.service.CassandraDaemon"
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 4 * 1024**3
"""Free room from which on the tests' files are in memory."""
LIMIT_S = 2 * 3600.0
"""A stage is ended after this time: a run shows which one hangs."""
LOGS = reports.BUILD / "stages"
PRINTED = threading.Lock()
GATE = ("-mnot extended",)
SLICE = ("-mslice",)

OVER_HTTP = (
    "tests/acceptance/sns/test_boto3.py",
    "tests/acceptance/sns/test_topics.py",
    "tests/acceptance/sns/test_many.py",
    "tests/acceptance/sns/test_retries.py",
    "tests/acceptance/up/test_up.py::test_a_stop_lets_work_end",
    "tests/acceptance/up/test_modes.py::test_without_auth_the_key_names_the_account",
    "tests/acceptance/up/test_modes.py::test_tls",
)
"""Tests whose calls pass through the queue port; they run a second time with its HTTP driver."""

COMPOSE_FILES = ("docker-compose.yml", "docker-compose.scaled.yml", "docker-compose.pipeline.yml")
OTHER_LANGUAGES = "tests/acceptance/clients/test_other_languages.py"
VALIDATORS = "tests/acceptance/clients/test_foreign_validators.py"
WEBHOOKS = "tests/acceptance/clients/test_webhook_pages.py"
CLIENT_PAGE = "tests/acceptance/clients/test_client_page.py"
TERRAFORM = "tests/acceptance/terraform/test_terraform.py"
HELM = "tests/acceptance/clients/test_helm_chart.py"
CONTAINERS = "tests/acceptance/clients/test_testcontainers.py"
RULE_ENGINE = "tests/filters/test_against_ruler.py"

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """`gate` is its command in `make test`, `all` in `make test-all`; None where it has no part in that run.

    `needs` are names of `lab.harness.parts.PARTS`, `needs_more` those that only `make test-all` needs. A stage of
    pytest runs without them, but for the tests that need them; any other stage is not run. `groups` are groups of
    dependencies beside `dev`. `is_last`: it runs after all others. `is_apart`: it runs only if it is named.
    """

    name: str
    gate: Command | None
    all: Command | None
    needs: tuple[str, ...] = ()
    needs_more: tuple[str, ...] = ()
    groups: tuple[str, ...] = ("test",)
    is_last: bool = False
    is_apart: bool = False

    def command(self, *, is_all: bool) -> Command | None:
        return self.all if is_all else self.gate

    def parts(self, *, is_all: bool) -> set[str]:
        return {*self.needs, *(self.needs_more if is_all else ())}


def check(name: str, *command: str, groups: tuple[str, ...] = ()) -> Stage:
    """A stage with one command in both runs."""
    return Stage(name, command, command, groups=groups)


def tests(
    name: str,
    *words: str,
    gate: Command | None = (),
    needs: tuple[str, ...] = (),
    needs_more: tuple[str, ...] = (),
    groups: tuple[str, ...] = ("test",),
    is_apart: bool = False,
) -> Stage:
    """A stage of pytest. `gate` are options that `make test` adds; None leaves the stage out of it."""
    in_gate = None if gate is None else (*PYTEST, *gate, *words)
    return Stage(name, in_gate, (*PYTEST, *words), needs, needs_more, groups, is_apart=is_apart)


def ignoring(*paths: str) -> list[str]:
    return [f"--ignore={path}" for path in paths]


def of_python(version: str) -> Stage:
    """The embedded form on this version of Python, in an environment of its own."""
    name, ignored = f"python{version}", ignoring("tests/unit/spark", "tests/acceptance/up/test_debian.py")
    folders = [f"{ACCEPTANCE}/{folder}" for folder in ("sns", "sqs", "rest", "cli", "up")]
    words = (*GATE, *ignored, "tests/unit", "tests/protocol", "tests/conformance", *folders)
    command = (str(environment(version) / "bin" / "python"), "-m", "pytest", "-q", *words)
    return Stage(name, command, command, (name, "cassandra", "redis", "exim"), groups=("test", name), is_apart=True)


IN_LANGUAGES = (*PYTEST, OTHER_LANGUAGES, VALIDATORS, WEBHOOKS, CLIENT_PAGE, TERRAFORM, HELM, CONTAINERS, RULE_ENGINE)
LANGUAGES = ("node", "curl", "jq", "jdk", "go", "php", "terraform")
WITH_SPARK = ("test", "pipeline")
EVERYTHING = (*WITH_SPARK, "clients")
ACCEPTANCE = "tests/acceptance"
INTEGRATION = "tests/integration"
OF_QUEUES = f"{INTEGRATION}/cqs"

STAGES = (
    check("format", str(BIN / "ruff"), "format", "--check", "--quiet", "."),
    check("lint", str(BIN / "ruff"), "check", "--quiet", "."),
    check("layers", str(BIN / "lint-imports")),
    check("compose", str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", *COMPOSE_FILES),
    tests("pipeline", "tests/pipeline", gate=SLICE, needs=("java",), needs_more=("cassandra",), groups=WITH_SPARK),
    tests("integration", OF_QUEUES, gate=GATE, needs=("cassandra", "redis")),
    tests(
        "acceptance",
        *[f"{ACCEPTANCE}/{folder}" for folder in ("cli", "up", "traces", "cluster")],
        gate=GATE,
        needs=("exim", "namespaces", "curl"),
        needs_more=("faketime",),
        groups=EVERYTHING,
    ),
    check("types", str(BIN / "mypy"), groups=EVERYTHING),
    tests(
        "integration-sns",
        f"--ignore={OF_QUEUES}",
        INTEGRATION,
        gate=GATE,
        needs=("cassandra", "redis", "exim", "namespaces", "tinyproxy"),
    ),
    tests(
        "acceptance-calls",
        *ignoring(OTHER_LANGUAGES, VALIDATORS, WEBHOOKS, CLIENT_PAGE, TERRAFORM, HELM, CONTAINERS),
        *ignoring(*[f"{ACCEPTANCE}/{folder}" for folder in ("cli", "up", "traces", "cluster")]),
        ACCEPTANCE,
        gate=GATE,
        needs=("redis", "exim", "haproxy", "nginx"),
        groups=EVERYTHING,
    ),
    tests("conformance", "tests/conformance", gate=GATE, needs=("cassandra", "redis")),
    tests(
        "unit",
        *ignoring(RULE_ENGINE),
        "tests/unit",
        "tests/protocol",
        "tests/static",
        "tests/filters",
        gate=GATE,
        needs=("systemd",),
        groups=WITH_SPARK,
    ),
    tests("celery", "tests/celery_host", gate=SLICE, needs=("redis",), groups=WITH_SPARK),
    Stage(
        "cluster",
        (sys.executable, "-m", "tests.acceptance.cluster.over_cluster", *SLICE),
        (sys.executable, "-m", "tests.acceptance.cluster.over_cluster"),
        ("cassandra", "redis", "haproxy"),
        groups=EVERYTHING,
    ),
    tests("browser", "tests/browser", gate=SLICE, needs=("chromium", "exim"), groups=EVERYTHING),
    Stage("clients", (*IN_LANGUAGES, *SLICE), (*IN_LANGUAGES, *SLICE), ("node", "curl", "jq"), groups=EVERYTHING),
    Stage("acceptance-http", None, ("env", "CNS_QUEUE_PORT=http", *PYTEST, *OVER_HTTP)),
    Stage("languages", None, IN_LANGUAGES, LANGUAGES, groups=EVERYTHING, is_apart=True),
    tests("ring", "-mring", "tests/faults", gate=None, needs=("cassandra", "redis"), is_apart=True),
    tests("containers", "-mcompose", "tests/compose", gate=None, is_apart=True),
    *[of_python(version) for version in VERSIONS],
    tests("faults", "-m", "not ring", "tests/faults", gate=None, needs=("cassandra", "redis")),
    tests("bench-tools", "tests/bench", gate=None),
    Stage("bench", None, (sys.executable, "-m", "lab.bench.run", "--quick"), ("cassandra", "redis"), is_last=True),
    Stage("rules", None, (sys.executable, "-m", "tests.spec.page"), is_last=True),
)
"""Long ones first, so that all end together."""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.run_stages", description="The stages of `make test`.")
    parser.add_argument("--all", action="store_true", help="those of `make test-all`")
    parser.add_argument("names", nargs="*", choices=[[], *(stage.name for stage in STAGES)], metavar="STAGE")
    options = parser.parse_args(words)
    named = [stage for stage in STAGES if (stage.name in options.names if options.names else not stage.is_apart)]
    chosen = {stage: command for stage in named if (command := stage.command(is_all=options.all))}
    needs = {part for stage in chosen for part in stage.parts(is_all=options.all)}
    groups = sorted({f"install-{group}" for stage in chosen for group in stage.groups})
    if groups and subprocess.run(["make", "--silent", *groups], check=False).returncode != 0:
        return 1
    if not options.names:
        shutil.rmtree(RECORDS, ignore_errors=True)  # records of earlier runs
    reports.begin()
    ours = servers.names_to_start()
    before = servers.running(ours)
    try:
        missing = prepare(needs, ours)
        return run(chosen, missing, is_all=options.all)
    finally:
        servers.stop(servers.running(ours) - before)


def prepare(needs: set[str], to_start: Iterable[str]) -> dict[str, str]:
    """Install parts and start servers. Returns the missing parts, with the commands that install or start them."""
    print("== parts", flush=True)
    missing = provide(sorted(needs))
    for name in sorted(needs.intersection(to_start) - missing.keys()):
        command = [sys.executable, "-m", "deploy.servers", "up", name]
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode != 0:
            missing[name] = f"python -m deploy.servers up {name}"
    return missing


def run(chosen: dict[Stage, Command], missing: dict[str, str], *, is_all: bool) -> int:
    is_ci = bool(os.environ.get("CI"))
    environment = {**os.environ, MISSING: "" if is_ci else json.dumps(missing)}
    environment |= {ALL: "1"} if is_all else {}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # with it every process compiles all tests again: 50 CPU s in all
    to_run, not_run = dict(chosen), []
    for stage, command in chosen.items():
        lacking = [name for name in stage.needs if name in missing]
        if stage.name in lacking or (lacking and "pytest" not in command and not is_ci):
            not_run += [f"not run: stage {stage.name}: {name} is missing: {missing[name]}" for name in lacking]
            del to_run[stage]
    last = [stage for stage in to_run if stage.is_last]
    LOGS.mkdir(parents=True, exist_ok=True)
    servers_before_s = cassandra_cpu_s()
    with files_directory() as files, ThreadPoolExecutor(AT_A_TIME) as pool:
        environment["PYTEST_DEBUG_TEMPROOT"] = str(files)
        started = [
            pool.submit(run_stage, stage, command, environment)
            for stage, command in to_run.items()
            if stage not in last
        ]
        results = [future.result() for future in started]
        results += [run_stage(stage, to_run[stage], environment) for stage in last]
    failed = sum(result.code != 0 for result in results)
    print("\n" + reports.failed())
    print("stage           seconds     CPU  result")
    print("\n".join(map(str, results)))
    all_s = sum(result.cpu_s for result in results) + (servers_s := cassandra_cpu_s() - servers_before_s)
    print(f"Cassandra: {servers_s:.1f} CPU s; in all {all_s:.1f}")
    print("slowest files", *reports.slowest(), sep="\n")
    print("\n".join([*reports.not_run(), *not_run]))
    for name, install in missing.items() if is_ci else ():
        print(f"missing: {name}: {install}")
    print(f"stages: {len(results) - failed} passed, {failed} failed")
    return 1 if failed or (missing and is_ci) else 0


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a stage. `cpu_s` is user and system time of its process and of all children that it waited for."""

    stage: str
    code: int
    seconds: float
    cpu_s: float

    def __str__(self) -> str:
        result = "ok" if self.code == 0 else f"FAILED ({self.code})"
        return f"{self.stage:<15} {self.seconds:7.1f} {self.cpu_s:7.1f}  {result}"


def cassandra_cpu_s() -> float:
    """The CPU seconds so far of the Cassandra of this directory, which the stages share."""
    return sum(
        sum(process.info["cpu_times"][:2])
        for process in psutil.process_iter(["cmdline", "cpu_times", "cwd"])
        if CASSANDRA in (process.info["cmdline"] or ()) and str(process.info["cwd"]).startswith(f"{servers.ROOT}/")
    )


@contextmanager
def files_directory() -> Iterator[Path]:
    """A directory for the tests' files: in memory, where a commit to disk costs nothing, if there is room."""
    is_roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES
    with tempfile.TemporaryDirectory(prefix="t", dir=MEMORY if is_roomy else None) as directory:
        yield Path(directory)


def run_stage(stage: Stage, command: Command, environment: dict[str, str]) -> Result:
    """Run it and print its output as a whole. After `LIMIT_S` it is ended by SIGABRT: Python prints its stacks."""
    log = LOGS / f"{stage.name}.log"
    with PRINTED:
        print(f"-- {stage.name} starts", flush=True)
    started_s = time.monotonic()  # for the table of stages: nothing asserts it
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        limit = threading.Timer(LIMIT_S, process.send_signal, (signal.SIGABRT,))
        limit.daemon = True
        limit.start()
        _, status, used = os.wait4(process.pid, 0)
        limit.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    with PRINTED:
        print(f"== {stage.name}\n{log.read_text(errors='replace')}", end="", flush=True)
    seconds = time.monotonic() - started_s
    return Result(stage.name, process.returncode, seconds, used.ru_utime + used.ru_stime)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
