"""The supervisor's reaction to a child's end, by exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from cns_common.data_directory import EXIT_DATA_FULL, EXIT_DATA_UNUSABLE
from cns_common.process.supervisor import Child, Supervisor
from tests.waiting import PATIENCE_S

STARTS_UNTIL_MENDED = 3
SCRIPT = """
import sys
path, code = sys.argv[1], int(sys.argv[2])
open(path, "a").write("started\\n")
starts = len(open(path).readlines())
sys.exit(code if starts < int(sys.argv[3]) else 70)  # 70 is final
"""


@pytest.mark.parametrize(("code", "starts"), [(EXIT_DATA_FULL, STARTS_UNTIL_MENDED), (EXIT_DATA_UNUSABLE, 1)])
async def test_a_full_disk_is_tried_again_with_growing_pauses_and_bad_data_are_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], code: int, starts: int
) -> None:
    started = tmp_path / "started"
    command = [sys.executable, "-c", SCRIPT, str(started), str(code), str(STARTS_UNTIL_MENDED)]
    ended = await Supervisor([Child("store", command, stop_rank=0)], tmp_path / "status", PATIENCE_S).run()
    assert len(started.read_text().splitlines()) == starts
    assert ended == (70 if starts > 1 else code)
    pauses = [line.rpartition(" in ")[2] for line in capfd.readouterr().err.splitlines()]
    assert pauses == ["0.1 s", "0.2 s"][: starts - 1]


async def test_a_child_that_does_not_stop_is_killed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    started = tmp_path / "started"
    stays = f"import signal, time; signal.signal(15, signal.SIG_IGN); open({str(started)!r}, 'w'); time.sleep(3600)"
    child = Child("api", [sys.executable, "-c", stays], stop_rank=0)
    running = asyncio.create_task(Supervisor([child], tmp_path / "status", stop_s=0.1).run())
    async with asyncio.timeout(PATIENCE_S):
        while not started.exists():
            await asyncio.sleep(0.01)  # the child starts
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0
    assert child.process is not None
    assert child.process.returncode == -signal.SIGKILL
    assert "cns: api did not stop within 0 s and is killed" in capfd.readouterr().err
