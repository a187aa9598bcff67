"""`cns check`: whether a store is damaged."""

from __future__ import annotations

from cns_cli.options import Data


def check(data: Data = None) -> None:
    """Look through the whole store for damage, and change nothing; exit code 1 when there is some."""
    from cns_cli.check_actions import run

    run(data)
