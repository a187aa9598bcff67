"""`cns check`: verifies the whole store of the embedded form, with or without a running service."""

from __future__ import annotations

from cns_cli.options import Data, Json
from cns_cli.output import print_json, refuse
from cns_cli.progress import open_steps
from cns_cli.store_access import require_store
from cns_common.configuration.settings import load_settings
from cns_common.sqlite.database import STORE_FILE
from cns_common.sqlite.integrity_check import check_integrity

EXIT_DAMAGED = 1


def check(data: Data = None, json: Json = False) -> None:
    """Verify the whole store and change nothing. Exit code 1 if it is damaged."""
    settings = load_settings(data)
    if settings.store == "cassandra":
        refuse("this verifies the embedded store; for the cluster form use `cns schema check`")
    require_store(settings)
    path = settings.data.absolute() / STORE_FILE
    with open_steps("verifying the store"):
        found = check_integrity(path)
    if json:
        print_json([{"store": str(path), "pages": found.pages, "faults": found.faults}])
    else:
        for fault in found.faults:
            print(fault)
    if found.faults:
        refuse(f"{path} is damaged", EXIT_DAMAGED)
    if not json:
        print(f"cns: no damage found in {path} ({found.pages} pages)")
