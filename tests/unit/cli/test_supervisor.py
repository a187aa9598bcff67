"""The supervisor: restarts, pauses, the sockets that it holds, and forced ends."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cns_common.data_directory import EXIT_DATA_FULL, EXIT_DATA_UNUSABLE
from cns_common.process import supervisor
from cns_common.process.supervisor import Child, Supervisor
from lab.harness.waiting import PATIENCE_S

STARTS_UNTIL_MENDED = 3
FINAL = 70
Ready = Callable[[], None]


class Sockets:
    """Listeners that count."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.socket = socket.create_server(("127.0.0.1", 0))

    def open(self) -> None:
        self.calls.append("open")

    def refuse(self) -> None:
        self.calls.append("refuse")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    found = Sockets()
    yield found
    found.socket.close()


class Work:
    """Counts its starts in a file, and ends with `code` until it was started so often; then with a final code."""

    def __init__(self, path: Path, code: int, starts_max: int, *, is_ready: bool = False) -> None:
        self._path, self._code, self._starts_max, self._is_ready = path, code, starts_max, is_ready

    def starts(self) -> int:
        return len(self._path.read_text().splitlines())

    def __call__(self, ready: Ready) -> int:
        with self._path.open("a") as file:
            file.write("started\n")
        if self._is_ready:
            ready()
        return self._code if self.starts() < self._starts_max else FINAL


def pauses_in(said: str) -> list[str]:
    return [line.rpartition(" in ")[2] for line in said.splitlines()]


class InTurns(Supervisor):
    """Its clock goes on only while no child runs, by what the supervisor waits then."""

    now_s = 0.0

    def _wait(self, seconds: float | None) -> None:
        running = any(child.pid for child in self._children)
        if not running:
            assert seconds is not None
            type(self).now_s += seconds
        super()._wait(None if running else 0)


@pytest.mark.parametrize(("code", "starts"), [(EXIT_DATA_FULL, STARTS_UNTIL_MENDED), (EXIT_DATA_UNUSABLE, 1)])
def test_a_full_disk_is_tried_again_with_growing_pauses_and_bad_data_are_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], sockets: Sockets, code: int, starts: int
) -> None:
    work = Work(tmp_path / "started", code, STARTS_UNTIL_MENDED)
    ended = Supervisor([Child(name="store", work=work)], tmp_path / "status", PATIENCE_S, sockets).run({})
    assert work.starts() == starts
    assert ended == (FINAL if starts > 1 else code)
    assert pauses_in(capfd.readouterr().err) == ["0.1 s", "0.2 s"][: starts - 1]


@pytest.mark.parametrize(
    ("starts", "pauses"), [(5, ["0.1 s"] * 4), (11, [*["0.1 s"] * 4, "0.2 s", "0.4 s", "0.8 s", *["1.0 s"] * 3])]
)
def test_a_child_that_did_its_work_is_started_again_at_once_unless_it_dies_often(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    sockets: Sockets,
    starts: int,
    pauses: list[str],
) -> None:
    monkeypatch.setattr(InTurns, "now_s", 0.0)
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: InTurns.now_s))
    work = Work(tmp_path / "started", -signal.SIGKILL % 256, starts, is_ready=True)
    assert InTurns([Child(name="api", work=work)], tmp_path / "status", PATIENCE_S, sockets).run({}) == FINAL
    assert pauses_in(capfd.readouterr().err) == pauses


@pytest.mark.parametrize(("is_ready", "refusals"), [(False, 2), (True, 0)])
def test_callers_are_refused_when_no_process_serves_for_five_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sockets: Sockets, *, is_ready: bool, refusals: int
) -> None:
    """The next start opens the sockets. A process that served is followed at once; a final code ends the waiting."""
    monkeypatch.setattr(InTurns, "now_s", 0.0)
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: InTurns.now_s))
    api = Work(tmp_path / "api", 1, 8, is_ready=is_ready)
    InTurns([Child(name="api", work=api, serves=True)], tmp_path / "status", PATIENCE_S, sockets).run({})
    assert sockets.calls.count("open") == api.starts() == 8
    assert sockets.calls.count("refuse") == refusals + 1
    # not ready: in the pauses of 3.2 s, which begins after 3.1 s, and of 6.4 s; and in both cases at the end


def test_a_caller_of_a_killed_child_waits_for_its_successor(tmp_path: Path, sockets: Sockets) -> None:
    """The connection that was never accepted is answered; nobody is refused."""
    answered = tmp_path / "answered"

    def serve(ready: Ready) -> int:
        if not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        ready()
        connection, _ = sockets.socket.accept()
        connection.sendall(b"answer")
        connection.close()
        return FINAL

    def call() -> None:
        with socket.create_connection(sockets.socket.getsockname()) as connection:
            answered.write_bytes(connection.recv(6))

    caller = threading.Thread(target=call)
    caller.start()
    children = [Child(name="api", work=serve, serves=True)]
    assert Supervisor(children, tmp_path / "status", PATIENCE_S, sockets).run({}) == FINAL
    caller.join(PATIENCE_S)
    assert answered.read_bytes() == b"answer"


def test_a_child_that_does_not_stop_is_killed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], sockets: Sockets
) -> None:
    supervising = os.getpid()

    def stay(ready: Ready) -> int:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.kill(supervising, signal.SIGTERM)
        while True:
            signal.pause()

    child = Child(name="api", work=stay)
    assert Supervisor([child], tmp_path / "status", 0.1, sockets).run({}) == 0
    assert child.pid == 0
    assert sockets.calls == ["close"], "callers wait for the next start if systemd holds the sockets"
    assert "cns: api did not stop within 0 s and is killed" in capfd.readouterr().err


class Signalled(Supervisor):
    """It gets these signals when it waits: the first ones the first time, and so on."""

    def __init__(self, signals: Sequence[Sequence[signal.Signals]], *words: Any) -> None:
        super().__init__(*words)
        self._sent = deque(signals)

    def _wait(self, seconds: float | None) -> None:
        for number in self._sent.popleft() if self._sent else ():
            os.kill(os.getpid(), number)
        super()._wait(seconds)


def stay(_ready: Ready) -> int:
    signal.pause()
    return 0


RESTART, STOP = signal.SIGUSR2, signal.SIGTERM


@pytest.mark.parametrize("signals", [[[RESTART], [RESTART, STOP]], [[RESTART], [STOP], [RESTART]]])
def test_a_stop_is_no_restart_and_children_outlive_a_return_for_one(
    tmp_path: Path, sockets: Sockets, signals: list[list[signal.Signals]]
) -> None:
    """The caller of `run` may find no program to execute, and go on. A restart may be wanted while it stops."""
    made = Signalled(signals, [Child(name="api", work=stay)], tmp_path / "status", PATIENCE_S, sockets)
    assert (made.run({}), made.restart_wanted) == (0, True)
    pids = made.pids()
    os.kill(pids["api"], 0)
    assert (made.run({}), made.restart_wanted, made.pids()) == (0, False, {})


def test_signals_between_two_programs_are_not_lost(tmp_path: Path, sockets: Sockets) -> None:
    """A child ends, and a stop comes, after the first program's last look and before the next one's first."""
    children = [Child(name="api", work=stay, serves=True), Child(name="worker", work=stay)]
    made = Signalled([[RESTART]], children, tmp_path / "status", PATIENCE_S, sockets)
    made.run({})
    pids = made.pids()
    os.kill(pids["worker"], signal.SIGKILL)
    os.waitid(os.P_PID, pids["worker"], os.WEXITED | os.WNOWAIT)
    signal.pthread_kill(threading.get_ident(), STOP)  # the supervisor has this thread alone
    successors = [Child(name="api", work=stay, serves=True), Child(name="worker", work=stay)]
    successor = Supervisor(successors, tmp_path / "status", PATIENCE_S, sockets)
    assert (successor.run(pids), successor.pids()) == (0, {})


def test_what_does_not_stop_is_killed_early_when_callers_wait_for_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], sockets: Sockets
) -> None:
    """The worker hangs and the API process dies; one of another name, which the new program has not, is stopped too."""
    monkeypatch.setattr(supervisor, "UNSERVED_S_MAX", 0.0)

    def hang(ready: Ready) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, [STOP])
        ready()
        return stay(ready)

    children = [
        Child(name="worker", work=hang),
        Child(name="old", work=stay),
        Child(name="api", work=stay, serves=True, stop_rank=1),
    ]
    made = Signalled([[], [RESTART]], children, tmp_path / "status", PATIENCE_S, sockets)
    made.run({})
    pids = made.pids()
    os.kill(pids["api"], signal.SIGKILL)
    successors = [Child(name="worker", work=stay), Child(name="api", work=stay, serves=True, stop_rank=1)]
    successor = Signalled([[], [], [STOP]], successors, tmp_path / "status", PATIENCE_S, sockets)
    assert (successor.run(pids), successor.pids()) == (0, {})
    assert "cns: worker did not stop within 0 s and is killed" in capfd.readouterr().err
    with pytest.raises(ChildProcessError):
        os.waitpid(pids["old"], os.WNOHANG)


def test_it_stops_when_its_input_ends(tmp_path: Path, sockets: Sockets) -> None:
    read_end, write_end = os.pipe()

    def close_it(ready: Ready) -> int:
        signal.pause()
        return 0

    os.close(write_end)
    assert (
        Supervisor([Child(name="api", work=close_it)], tmp_path / "status", PATIENCE_S, sockets, read_end).run({}) == 0
    )
    os.close(read_end)
