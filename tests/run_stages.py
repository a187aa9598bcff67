"""`make test`: every stage in turn, its time printed; the first failure does not keep the others from running."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent
PYTEST = [sys.executable, "-m", "pytest", "-q"]

STAGES: tuple[tuple[str, list[str]], ...] = (
    ("format", [str(BIN / "ruff"), "format", "--check", "--quiet", "."]),
    ("lint", [str(BIN / "ruff"), "check", "--quiet", "."]),
    ("layers", [str(BIN / "lint-imports")]),
    ("types", [str(BIN / "mypy")]),
    ("unit", [*PYTEST, "tests/unit", "tests/protocol"]),
    ("conformance", [*PYTEST, "tests/conformance"]),
    ("integration", [*PYTEST, "tests/integration"]),
    ("acceptance", [*PYTEST, "tests/acceptance"]),
    ("faults", [*PYTEST, "tests/faults"]),
    ("tools", [*PYTEST, "tests/load"]),
    ("load", [sys.executable, "-m", "tests.load.bench", "--quick"]),
)


def main(names: list[str]) -> int:
    times: list[tuple[str, float, int]] = []
    for name, command in STAGES:
        if names and name not in names:
            continue
        print(f"== {name}", flush=True)
        started = time.monotonic()
        code = subprocess.run(command, check=False).returncode
        times.append((name, time.monotonic() - started, code))
    print("\nstage          seconds  result")
    for name, seconds, code in times:
        print(f"{name:<14} {seconds:7.1f}  {'ok' if code == 0 else f'FAILED ({code})'}")
    failed = sum(code != 0 for _, _, code in times)
    print(f"stages: {len(times) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
