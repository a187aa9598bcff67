"""A store on a real disk without a free byte, and the reserve that keeps deletes possible."""

from __future__ import annotations

from pathlib import Path

from tests.integration.storage.full_disk import DISK_MIB, MIB, ROWS, run

REFUSED = "the disk is full"


def test_a_store_opens_for_reading_without_space(tmp_path: Path) -> None:
    facts = run(tmp_path / "disk", "open_without_space")
    assert facts["single_connection"]
    assert (facts["rows"], facts["count"]) == (ROWS, ROWS)
    assert (facts["send"], facts["delete"]) == (REFUSED, REFUSED)
    assert facts["full"].startswith(REFUSED)
    assert (facts["room_before"], facts["room_after"]) == ([], ["room"])
    assert (facts["single_connection_after"], facts["send_after"]) == (False, "done")


def test_the_reserve_is_enough_to_open_and_delete(tmp_path: Path) -> None:
    facts = run(tmp_path / "disk", "open_with_reserve")
    assert facts["reserve_bytes"] == DISK_MIB * MIB // 8, "of a small disk, less than 16 MiB"
    assert (facts["single_connection"], facts["send"]) == (False, REFUSED)
    assert facts["full"].startswith(REFUSED)
    assert (facts["delete"], facts["rows"], facts["reserve_given_up"]) == ("done", ROWS - 80, True)
    assert 0 < facts["sent_into_freed_space"] < 80
    assert facts["answer_after_these"] == REFUSED
    assert facts["full_again"].startswith(REFUSED)
    assert facts["delete_again"] == "done"
    assert (facts["send_after"], facts["full_after"]) == ("done", "")
    assert facts["reserve_after"] == facts["reserve_bytes"]
