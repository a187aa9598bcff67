"""No modules of a package import one another in a circle, not inside functions and not for types either."""

from __future__ import annotations

import graphlib
import tomllib
from pathlib import Path

import grimp

SETTINGS = Path(__file__).parents[2] / "pyproject.toml"


def test_no_modules_import_one_another_in_a_circle() -> None:
    packages = tomllib.loads(SETTINGS.read_text())["tool"]["importlinter"]["root_packages"]
    graph = grimp.build_graph(*packages, cache_dir=None)
    sorter = graphlib.TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
    sorter.prepare()  # raises CycleError with a circle
