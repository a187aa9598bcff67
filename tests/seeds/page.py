"""Draws docs/seeds.md from the rows."""

from __future__ import annotations

from pathlib import Path

from tests.seeds.rows import SEEDS, STATES, Row, load_rows

PAGE = Path(__file__).parents[2] / "docs" / "seeds.md"
_HEAD = """# What the seeds state

Every statement of the five seed documents by id, its state, and the command that shows it. `make seeds SEED=000` runs a
seed's commands; a command with `pytest` needs the servers that `make test` starts. This page is written by
`python -m tests.seeds --page` from `tests/seeds/*.toml`; a test keeps both equal.
"""


def draw_page() -> str:
    rows = {seed: load_rows(seed) for seed in SEEDS}
    lines = [_HEAD, "| seed | rows | yes | partly | no |", "|---|---|---|---|---|"]
    for seed, (_, name, _) in SEEDS.items():
        lines.append(f"| {seed} {name} | {_counts(rows[seed])} |")
    lines.append(f"| all | {_counts([row for some in rows.values() for row in some])} |")
    for seed, (_, name, _) in SEEDS.items():
        lines += ["", f"## {seed}: {name}", "", "| id | stated | state | shown by | note |", "|---|---|---|---|---|"]
        lines += [_line(row) for row in rows[seed]]
    return "\n".join(lines) + "\n"


def _counts(rows: list[Row]) -> str:
    states = [row.state for row in rows]
    return " | ".join([str(len(states)), *[str(states.count(state)) for state in STATES]])  # type: ignore[arg-type]


def _line(row: Row) -> str:
    shown = f"`{row.show}`" if row.show else ""
    return f"| {row.id} | {_cell(row.stated)} | {row.state} | {_cell(shown)} | {_cell(row.note)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
