"""A store on a real disk that is full to its last byte, and the reserve that keeps deletes possible."""

from __future__ import annotations

from pathlib import Path

from tests.integration.storage.full_disk import DISK_MIB, MIB, ROWS, run

REFUSED = "the disk is full"


def test_it_opens_for_reading_where_there_is_no_room_at_all(tmp_path: Path) -> None:
    seen = run(tmp_path / "disk", "opened_without_any_room")
    assert seen["single_connection"]
    assert (seen["rows"], seen["count"]) == (ROWS, ROWS)
    assert (seen["send"], seen["delete"]) == (REFUSED, REFUSED)
    assert seen["full"].startswith(REFUSED)
    assert (seen["room_before"], seen["room_after"]) == ([], ["room"])
    assert (seen["single_connection_after"], seen["send_after"]) == (False, "done")


def test_the_reserve_leaves_room_to_open_and_to_delete(tmp_path: Path) -> None:
    seen = run(tmp_path / "disk", "opened_with_the_reserve")
    assert seen["reserve_bytes"] == DISK_MIB * MIB // 8, "of a small disk, less than 16 MiB"
    assert (seen["single_connection"], seen["send"]) == (False, REFUSED)
    assert seen["full"].startswith(REFUSED)
    assert (seen["delete"], seen["rows"], seen["reserve_given_up"]) == ("done", ROWS - 80, True)
    assert 0 < seen["sent_into_what_was_deleted"] < 80
    assert seen["then"] == REFUSED
    assert seen["full_again"].startswith(REFUSED)
    assert seen["delete_again"] == "done"
    assert (seen["send_after"], seen["full_after"]) == ("done", "")
    assert seen["reserve_after"] == seen["reserve_bytes"]
