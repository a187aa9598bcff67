"""Root's commands in another user's data directory: links in it give that user no other file, and write to none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cns_cli.activity import recorded
from cns_common.activity.search import ActFilter, newest_acts
from cns_common.data_directory import lock_directory
from cns_common.data_owner import give_to_owner
from cns_common.errors import StartError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
OWNER = 6059


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory of another user, in a directory that only root may enter."""
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    os.chown(made, OWNER, OWNER)
    return made


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A file of root's."""
    path = tmp_path / "foreign"
    path.write_text("root's")
    return path


def act(data: Path) -> None:
    with recorded(data, "DeleteAccount", "111111111111"):
        pass


def test_acts_of_root_belong_to_the_owner(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.getcwd(), os.getgroups(), os.getegid()
    act(data)
    act(data)
    assert (os.getcwd(), os.getgroups(), os.getegid(), os.geteuid()) == (*before, 0)
    assert {(path.stat().st_uid, path.stat().st_gid) for path in data.rglob("*")} == {(OWNER, OWNER)}
    assert [one.action for one in newest_acts(data / "acts", ActFilter(), 9).events] == ["cns:DeleteAccount"] * 2
    assert capsys.readouterr().err == ""


def test_links_among_the_acts_change_no_other_file(data: Path, foreign: Path) -> None:
    act(data)
    (folder,) = [path.parent for path in data.rglob("*.jsonl")]
    (folder / "link").symlink_to(foreign)
    (folder / "api-0000000000000000-000000000001.jsonl.open").symlink_to(foreign)  # the name of a dead writer's segment
    (folder / "hard").hardlink_to(foreign)
    act(data)
    assert (foreign.stat().st_uid, foreign.read_text()) == (0, "root's")


@pytest.mark.parametrize("where", ["acts", "acts/day"])
def test_acts_are_not_written_through_a_link(
    data: Path, tmp_path: Path, where: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cns_common.activity.log.WAIT_S_MAX", 0.05)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    link = data / where
    if where != "acts":
        act(data)
        (day,) = (data / "acts").iterdir()
        link = day
        day.rename(tmp_path / "former")
    link.symlink_to(elsewhere)
    with capture_logs() as lines:
        act(data)
    assert list(elsewhere.iterdir()) == [] and elsewhere.stat().st_uid == 0
    told = "not in the log of acts" in capsys.readouterr().err
    assert told or "act.unrecorded" in {line["event"] for line in lines}


def test_only_plain_files_are_given(data: Path, foreign: Path) -> None:
    (data / "plain").touch()
    (data / "symbolic").symlink_to(foreign)
    (data / "hard").hardlink_to(foreign)
    (data / "directory").mkdir()
    os.mkfifo(data / "pipe")
    give_to_owner(data, ("plain", "missing"))
    assert (data / "plain").stat().st_uid == OWNER
    for name in ("symbolic", "hard", "directory", "pipe"):
        with pytest.raises(OSError, match=name):
            give_to_owner(data, (name,))
        assert (data / name).stat().st_uid == 0


def test_a_lock_that_is_a_link_is_refused(data: Path, foreign: Path) -> None:
    (data / "lock").symlink_to(foreign)
    with pytest.raises(StartError, match="cannot write"):
        lock_directory(data, "lock")
    assert foreign.read_text() == "root's"
