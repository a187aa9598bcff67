"""The last resort of a process that was told to stop."""

from __future__ import annotations

import subprocess
import sys

from lab.harness.waiting import PATIENCE_S

HANGS = """
import threading
from cns_common.process.stop_limit import end_within
threading.Thread(target=threading.Event().wait).start()  # as a thread of the default executor: the interpreter joins it
end_within(0.01)
threading.Event().wait()
"""


def test_a_process_that_hangs_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS], timeout=PATIENCE_S, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "process.stop_timed_out" in done.stdout


def test_a_process_whose_log_is_not_read_ends() -> None:
    code = "import os; os.set_blocking(1, True)\nwhile os.write(1, bytes(65_536)) == 65_536: pass"
    fill = f"import threading\nthreading.Thread(target=exec, args=({code!r},)).start()"
    with subprocess.Popen([sys.executable, "-c", fill + HANGS], stdout=subprocess.PIPE) as process:
        assert process.wait(PATIENCE_S) == 0


def test_a_process_that_ends_in_time_is_left_alone() -> None:
    code = "from cns_common.process.stop_limit import end_within; end_within(3_600); raise SystemExit(3)"
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE_S, check=False).returncode == 3
