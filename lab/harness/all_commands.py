"""Loads the modules of all `cns` commands: in the process from which `lab.harness.commands` forks each."""

from __future__ import annotations

from importlib import import_module

from cns_cli.main import COMMANDS

LAZY = ("cns_backend.cluster", "cns_cli.doctor.messaging")
"""Loaded by a command while it runs."""

for module in (*LAZY, *[entry.partition(":")[0] for entry in COMMANDS.values()]):
    import_module(module)
