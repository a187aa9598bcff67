"""Parts of `cns replay` without a store: pages, progress, pace, a backlog that does not shrink, targets."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace

from cns.filters.model import Scope
from cns.notification import Notification
from cns_cli.replay.backlog import POLLS_MAX, Backlog
from cns_cli.replay.command import resumed
from cns_cli.replay.display import progress_display
from cns_cli.replay.filtering import compile_filter
from cns_cli.replay.model import PAGE_MESSAGES, PastMessage, ReplayStopped
from cns_cli.replay.pace import Pace
from cns_cli.replay.progress import Progress, ProgressFile
from cns_cli.replay.runner import BulkReplay
from cns_cli.replay.targets import check_target, is_subscription
from cns_common.errors import StartError

MESSAGES = 5 * PAGE_MESSAGES // 2
TOPIC = "arn:aws:sns:us-east-1:000000000000:t"
SUBSCRIPTION = f"{TOPIC}:12345678-1234-4234-8234-123456789012"
QUEUE = "arn:aws:sqs:us-east-1:000000000000:q"


def notification(number: int) -> Notification:
    attributes = {"even": ("String", str(number % 2 == 0))}
    body = f'{{"n":{number}}}'
    return Notification(
        id=str(number), topic_arn=TOPIC, timestamp_ms=number, texts={"default": body}, attributes=attributes
    )


class Source:
    """Numbered messages."""

    async def messages(self, after: str, after_ms: int) -> AsyncIterator[list[PastMessage]]:
        first = int(after) + 1 if after else 0
        for start in range(first, MESSAGES, PAGE_MESSAGES):
            numbers = range(start, min(start + PAGE_MESSAGES, MESSAGES))
            yield [PastMessage(f"{number:06d}", notification(number)) for number in numbers]


class Destination:
    """Records what is sent, and stops in the midst of the page that holds message number `stops_at`."""

    def __init__(self, stops_at: int = -1) -> None:
        self.sent: list[int] = []
        self._stops_at = stops_at

    async def send(self, notifications: Sequence[Notification]) -> int:
        for each in notifications:
            self.sent.append(int(each.id))
            if self.sent[-1] == self._stops_at:
                raise ReplayStopped("stopped")
        return len(notifications)


def free_pace() -> Pace:
    return Pace(0, lambda: 0.0, no_sleep)


async def no_sleep(_: float) -> None:
    raise AssertionError


async def run(data: Path, destination: Destination, policy: str = "") -> Progress:
    """One run of a command: it continues what an earlier one has recorded."""
    wanted = compile_filter(policy, Scope.ATTRIBUTES)
    with ProgressFile(data, "the command") as file:
        progress = file.load() or Progress(id="replay", command="the command", since_ms=0, until_ms=MESSAGES)
        file.save(progress)
        done = await BulkReplay(Source(), destination, wanted, file, free_pace(), lambda _: None).run(progress)
        file.remove()
    return done


@pytest.mark.parametrize("stops_at", [0, 1, PAGE_MESSAGES - 1, PAGE_MESSAGES, MESSAGES - 1])
async def test_a_stopped_replay_goes_on_and_repeats_a_page_at_most(tmp_path: Path, stops_at: int) -> None:
    first, second = Destination(stops_at), Destination()
    with pytest.raises(ReplayStopped):
        await run(tmp_path, first)
    done = await run(tmp_path, second)
    page_start = stops_at // PAGE_MESSAGES * PAGE_MESSAGES
    assert first.sent == list(range(stops_at + 1))
    assert second.sent == list(range(page_start, MESSAGES))
    assert (done.read, done.sent) == (MESSAGES, MESSAGES)
    assert list(tmp_path.iterdir()) == []


async def test_a_filter_counts_what_it_leaves_out(tmp_path: Path) -> None:
    destination = Destination()
    done = await run(tmp_path, destination, '{"even":["True"]}')
    assert destination.sent == list(range(0, MESSAGES, 2))
    assert (done.read, done.sent) == (MESSAGES, len(destination.sent))


def test_filters_of_bodies() -> None:
    wanted = compile_filter('{"n":[{"numeric":[">",1]}]}', Scope.BODY)
    assert [wanted(notification(number)) for number in (1, 2)] == [False, True]
    with pytest.raises(StartError, match=r"--filter: .*FilterPolicy"):
        compile_filter("{", Scope.BODY)


def test_a_replay_that_goes_on_names_its_period(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressFile(tmp_path, "the command") as file:
        assert resumed(file, "") is None
        file.save(Progress(id="i", command="c", since_ms=86_400_000, until_ms=172_800_000, read=7, archive="a"))
        found = resumed(file, "a")
        assert found is not None
        assert (found.read, found.resumed) == (7, 1)
        with pytest.raises(StartError, match="the topic has begun another one"):
            resumed(file, "b")
    period = "1970-01-02T00:00Z to 1970-01-03T00:00Z"
    text = f"continues the replay of {period}, after 7 messages; at most 100 messages are sent twice"
    assert capsys.readouterr().err == f"cns: {text}. To begin anew remove {file.path}\n"


def test_the_name_of_a_record_outlasts_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[Path, bool]] = []

    def fsync(fd: int) -> None:
        synced.append((Path(os.readlink(f"/proc/self/fd/{fd}")), file.path.exists()))

    with ProgressFile(tmp_path, "the command") as file:
        monkeypatch.setattr(os, "fsync", fsync)
        file.save(Progress(id="i", command="c", since_ms=0, until_ms=1))
    assert [(path.name, renamed) for path, renamed in synced] == [
        (file.path.with_suffix(".new").name, False),
        ("replays", True),
    ]


@pytest.mark.parametrize("content", [b"{", b'{"id": "\xff"}', b'{"x":' + b"[" * 9_999 + b"]" * 9_999 + b"}"])
def test_a_record_that_is_damaged_is_named(tmp_path: Path, content: bytes) -> None:
    with ProgressFile(tmp_path, "the command") as file:
        file.path.write_bytes(content)
        with pytest.raises(StartError, match=f"{file.path} cannot be read"):
            file.load()


def test_one_replay_runs_once_at_a_time(tmp_path: Path) -> None:
    with (
        ProgressFile(tmp_path, "one"),
        ProgressFile(tmp_path, "other"),
        pytest.raises(StartError, match="is in use"),
        ProgressFile(tmp_path, "one"),
    ):
        pass


async def test_the_pace_is_the_rate_on_average() -> None:
    now_s, waits_s = 100.0, []

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        waits_s.append(seconds)
        now_s += seconds

    pace = Pace(50, lambda: now_s, sleep)
    assert pace.page_messages == 50
    for messages in (50, 25, 50):
        await pace.wait(messages)
    assert waits_s == [1.0, 0.5]
    now_s += 10
    await pace.wait(50)
    assert waits_s == [1.0, 0.5], "what was late is not caught up"


def test_without_a_terminal_there_is_a_line_for_each_ten_thousand(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(id="i", command="c", since_ms=0, until_ms=10, read=19_900, sent=9_000, at_ms=0)
    with progress_display(0, 10) as show:
        for read in (19_900, 20_000, 20_100, 29_900, 30_000):
            show(replace(progress, read=read))
    assert capsys.readouterr().err.splitlines() == [
        f"9000 of {read} messages, up to 1970-01-01T00:00:00.000Z" for read in (20_000, 30_000)
    ]


def test_the_bar_of_a_replay_that_ended_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    with progress_display(0, 10) as show:
        show(Progress(id="i", command="c", since_ms=0, until_ms=10, read=3, sent=3, at_ms=8))
    assert "100 %" in terminal.getvalue()


class FullQueue:
    """A queue port whose queue has these depths in turn, the last one for ever."""

    def __init__(self, *depths: int) -> None:
        self._depths = list(depths)

    async def depth(self, queue: str) -> int:
        return self._depths.pop(0) if len(self._depths) > 1 else self._depths[0]


async def test_a_replay_waits_for_room_and_stops_where_there_is_none() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    await Backlog(FullQueue(12, 11, 9), "q", sleep, depth_max=10).wait()  # type: ignore[arg-type]  # a part of the port
    assert len(slept) == 2
    with pytest.raises(ReplayStopped, match="do not become fewer"):
        await Backlog(FullQueue(12), "q", sleep, depth_max=10).wait()  # type: ignore[arg-type]  # a part of the port
    assert len(slept) == 2 + POLLS_MAX


@pytest.mark.parametrize(("text", "subscription"), [(TOPIC, False), (SUBSCRIPTION, True)])
def test_targets(text: str, subscription: bool) -> None:
    assert check_target(text) == text
    assert is_subscription(text) is subscription


@pytest.mark.parametrize(
    "text", ["", "q", "arn:aws:lambda:us-east-1:000000000000:function:f", QUEUE, "https://e.test/", TOPIC + ":x"]
)
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(StartError, match="--to"):
        check_target(text)
