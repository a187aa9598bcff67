"""`cns completion …`: prints the shell's code that completes commands, options, queues and topics."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer._completion_shared import get_completion_script

from cns_cli.main import COMPLETION_VARIABLE


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell that you use.")]) -> None:
    """Print the code that completes commands, options, queues and topics in your shell.

    Example: cns completion bash > ~/.local/share/bash-completion/completions/cns
    """
    print(get_completion_script(prog_name="cns", complete_var=COMPLETION_VARIABLE, shell=shell.value))
