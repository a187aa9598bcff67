"""`cns` commands, each run to its end in a process forked from one that has loaded the modules of all commands.

A fresh Python spends most of a command's time on imports. `lab.harness.running` starts the installed program for
`cns up` and for tests of the program itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path

from lab.harness.waiting import PATIENCE_S

_context = get_context("forkserver")
_context.set_forkserver_preload(["lab.harness.all_commands", "lab.harness.commands"])


def run(
    *words: str | Path, environment: Mapping[str, str] | None = None, cwd: Path | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `cns` with these words and standard input. `environment` replaces the environment of the test."""
    with tempfile.TemporaryDirectory() as directory:
        given, out, err = Path(directory, "in"), Path(directory, "out"), Path(directory, "err")
        given.write_text(stdin)
        arguments = [str(word) for word in words]
        process = _context.Process(
            target=_run, args=(arguments, dict(environment or os.environ), cwd or Path.cwd(), given, out, err)
        )
        process.start()
        process.join(PATIENCE_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["cns", *arguments], PATIENCE_S)
        return subprocess.CompletedProcess(["cns", *arguments], process.exitcode, out.read_text(), err.read_text())


def _run(words: list[str], environment: dict[str, str], cwd: Path, given: Path, out: Path, err: Path) -> None:
    """Run the command. Called in the forked process."""
    from cns_cli.main import main

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for stream, number, path in ((sys.stdout, 1, out), (sys.stderr, 2, err)):
        stream.flush()
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    sys.stdin = given.open()
    sys.argv = ["cns", *words]
    main()
