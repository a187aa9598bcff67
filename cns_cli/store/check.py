"""`cns check`: verifies the whole store of the embedded form, with or without a running service."""

from __future__ import annotations

import sys

from cns_cli.options import Data
from cns_cli.store_access import require_store
from cns_common.configuration.settings import load_settings
from cns_common.errors import StartError
from cns_common.sqlite.database import STORE_FILE
from cns_common.sqlite.integrity_check import check_integrity

EXIT_DAMAGED = 1
EXIT_USAGE = 2


def check(data: Data = None) -> None:
    """Verify the whole store and change nothing. Exit code 1 if it is damaged."""
    try:
        settings = load_settings(data)
        if settings.store == "cassandra":
            print("cns: this verifies the embedded store; for the cluster form use `cns schema check`", file=sys.stderr)
            sys.exit(EXIT_USAGE)
        require_store(settings)
        path = settings.data.absolute() / STORE_FILE
        found = check_integrity(path)
    except StartError as error:
        print(f"cns: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    for fault in found.faults:
        print(fault)
    if found.faults:
        print(f"cns: {path} is damaged", file=sys.stderr)
        sys.exit(EXIT_DAMAGED)
    print(f"cns: no damage found in {path} ({found.pages} pages)")
