"""`make compare` with ours and stubs of peers: each part counts what it says, the page says where ours is behind."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.bench.compare import kept, sides, tables
from lab.bench.compare.kept import Survival
from lab.bench.compare.pressure import CELLS, Cell
from lab.bench.compare.pressure import Size as PressureSize
from lab.bench.compare.rates import DRAIN, FAN, LONE, NO_TOPICS, PAIR, SEND, TOPIC, WAKE, WORKLOADS, Load
from lab.bench.compare.section import Size, interleaved
from lab.bench.compare.sides import OURS, PEERS, SOURCES, Side, chosen
from lab.bench.compare.tables import Measured, lines
from lab.bench.drawing import RateBar, draw_rates
from lab.bench.servers import FLOOR
from lab.harness.installing import Program
from lab.measure.figures import Figures

SVG = "{http://www.w3.org/2000/svg}"
GUARD_S = 240.0
LOADS = (
    Load(4, sends=40, pairs=20, drained=40, publishes=12, fanned=3, wakes=3, seconds_max=GUARD_S),
    Load(1, sends=10, pairs=5, drained=20, publishes=4, fanned=1, wakes=3, lone_cycles=4, seconds_max=GUARD_S),
)
PRESSURE = PressureSize(20, 100, 50, 1_100, seconds_max=GUARD_S, fill_s_max=GUARD_S, delete_s_max=GUARD_S)
SIZE = Size(LOADS[1], LOADS, PRESSURE, kept=40, quiet_s=0)
FAILED = "HTTP/1.1 500 Internal Server Error: Internal Server Error"


def units(measured: Measured, load: Load) -> dict[str, object]:
    results = {
        name: measured.of(load.connections, name) for name in WORKLOADS if (load.connections, name) in measured.runs
    }
    return {name: one.units if isinstance(one, Figures) else one for name, one in results.items()}


def test_every_part_measures_ours_and_a_stub_of_a_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sides.CHOICE, "floor")
    found, absent = chosen(tmp_path)
    assert (len(found), absent) == (len(OURS) + 1, {})
    ours, floor = interleaved([OURS[0], found[-1]], tmp_path, 1, 1, SIZE)
    for load in LOADS:
        queues = {SEND: load.sends, PAIR: load.pairs, DRAIN: load.drained, WAKE: load.wakes}
        lone = {LONE: 3 * load.lone_cycles} if load.lone_cycles else {}
        assert units(ours, load) == {**queues, TOPIC: load.publishes, FAN: 10 * load.fanned, **lone}
        assert units(floor, load) == {**queues, TOPIC: NO_TOPICS, FAN: NO_TOPICS, **lone}
    calm, stopped, in_flight, retried, deleted, read = (ours.cells[name] for name in CELLS)
    calls = [cell.result.units for cell in ours.cells.values() if isinstance(cell.result, Figures)]
    assert calls == [60, 60, 60, 80, 60, 60]  # half of the messages take five calls instead of three
    assert [calm.amount, stopped.amount, in_flight.amount, retried.amount, deleted.amount] == [0, 100, 50, 0, 1_100]
    assert read.amount >= 1
    assert len(list((tmp_path / "pressure-0").glob("copy-*"))) == read.amount
    assert [floor.cells[name].result for name in (CELLS[3], CELLS[5])] == [FAILED, FAILED]  # it has no such calls
    for one in (ours, floor):
        assert isinstance(one.kept, Survival)
        assert one.is_durable and one.kept.acknowledged >= SIZE.kept
    text = "\n".join(lines([ours, floor], absent, LOADS, PRESSURE))
    assert f"the floor (half retried, a long read beside): `{FAILED}`" in text


def test_what_a_side_forgets_is_counted(tmp_path: Path) -> None:
    words = ["sh", "-c", 'rm -rf "$0"; exec "$@"', "{data}", *FLOOR]
    forgets = Side(name="forgets", start=lambda _: words)
    forgotten = kept.measure(forgets, tmp_path, SIZE.kept, 1)
    assert forgotten.there == 0 and forgotten.acknowledged >= SIZE.kept
    assert not forgotten.all


def fail(_source: Path, _built: Path) -> None:
    raise AssertionError("npm ci in a directory:\nno such package")


def test_a_peer_that_cannot_be_had_is_named_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    gone = Side(name="Gone", source="gone", program=Program(build=fail, command=lambda _: []), start=list)
    ends = Side(name="Ends", start=lambda _: ["sh", "-c", "echo no such flag"])
    monkeypatch.setattr(sides, "SOURCES", tmp_path)
    monkeypatch.setattr(sides, "PEERS", {**PEERS, "gone": gone, "ends": ends})
    monkeypatch.setenv(sides.CHOICE, "floor, gone ends")
    found, absent = chosen(tmp_path)
    assert [side.name for side in found] == [*(side.name for side in OURS), "the floor"]
    assert absent == {"Gone": "no such package", "Ends": "no such flag"}
    assert "| Gone | absent | no such package |" in "\n".join(tables._sides([], absent))
    monkeypatch.setenv(sides.CHOICE, "nobody")
    with pytest.raises(SystemExit, match="no peer nobody; there are fauxqs, "):
        chosen(tmp_path)


@pytest.mark.parametrize("name", [name for name, peer in PEERS.items() if peer.program])
def test_the_version_shown_is_the_locked_one(name: str) -> None:
    source, version = SOURCES / PEERS[name].source, PEERS[name].version
    locks = [path.read_text() for path in source.iterdir()]
    assert any(version in text for text in locks)
    assert not any('"resolved"' in text or "index-url" in text for text in locks)


def measured(
    name: str, per_s: float, *, is_ours: bool = False, keeps_all: bool = True, p50_ms: float = 1.0
) -> Measured:
    figures = Figures(
        workload="",
        server=name,
        connections=1,
        units=1,
        seconds=1.0,
        per_s=per_s,
        p50_ms=p50_ms,
        p95_ms=p50_ms,
        p99_ms=p50_ms,
        mean_ms=p50_ms,
        server_us=10.0,
        generator_us=1.0,
        others_share=0.0,
    )
    one = Measured(Side(name=name, start=list, is_ours=is_ours), cells={cell: Cell(figures, 9) for cell in CELLS})
    one.kept = Survival(10, 10 if keeps_all else 0)
    for workload in WORKLOADS:
        one.runs[1, workload] = [figures]
    return one


def test_the_page_marks_the_first_that_keeps_all_and_says_where_ours_is_behind() -> None:
    ours = measured("ours", 100, is_ours=True, p50_ms=2.0)
    ours.runs[1, DRAIN] = measured("ours", 300).runs[1, DRAIN]
    sides_of = [ours, measured("forgetful", 900, keeps_all=False, p50_ms=0.1), measured("other", 200)]
    text = "\n".join(lines(sides_of, {}, LOADS[1:], PRESSURE))
    assert "| ours | 100 | 100 | **300** | 100 | 100 | 2.0, 2.0 | 100; 10 µs |" in text
    assert "| forgetful | 900 | 900 | 900 | 900 | 900 | 0.1, 0.1 | 900; 10 µs |" in text
    assert "| other | **200** | **200** | 200 | **200** | **200** | **1.0, 1.0** | **200; 10 µs** |" in text
    behind = text.partition("by default:** ")[2].partition("\n")[0]
    assert "send at 1 (other 200 : 100)" in behind and "wake at 1 (other 1.0 ms : 2.0)" in behind
    assert "drain" not in behind and "forgetful" not in behind
    assert "100, 2.0 (9)" in text  # fewer in the queue than the cell names


def test_a_plot_has_a_bar_a_side_in_groups() -> None:
    bars = [RateBar("send", "a", 10, "ours"), RateBar("send", "b", 5, "disk"), RateBar("drain", "a", 7, "ours")]
    root = ElementTree.fromstring(draw_rates("t", bars))
    widths = [float(box.attrib["width"]) for box in root.iter(f"{SVG}rect")]
    assert widths[0] == widths[2] == 2 * widths[1]
    labels = [text.text for text in root.iter(f"{SVG}text")]
    assert labels == ["t", "send", "a", "10/s", "b", "5/s", "drain", "a", "7/s"]
    assert max(float(label.attrib["y"]) for label in root.iter(f"{SVG}text")) < float(root.attrib["viewBox"].split()[3])
