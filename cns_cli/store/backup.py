"""`cns backup`: a verified copy of the store and its key, whether the service runs or not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cns_backend.backups.backup import make_backup
from cns_backend.backups.manifest import KEY_GIVEN
from cns_cli.options import Data, Json
from cns_cli.output import print_json
from cns_cli.progress import open_steps
from cns_cli.store.cluster_backup import print_cluster_steps
from cns_cli.store_access import require_store
from cns_common.configuration.settings import load_settings


def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="A new directory.")],
    data: Data = None,
    json: Json = False,
) -> None:
    """Copy the store and its key into a new directory, and verify the copy. The service may run. The copy has every
    message that was acknowledged before the backup began.

    Example: cns backup /var/backups/cns/2026-11-24
    """
    settings = load_settings(data)
    if settings.store == "cassandra":
        sys.exit(print_cluster_steps(settings))
    require_store(settings)
    manifest = make_backup(settings, directory, open_steps)
    if json:
        print_json([{"directory": str(directory.absolute()), "manifest": manifest}])
    else:
        size = sum(fact.bytes for fact in manifest.files.values())
        print(f"cns: {directory} has {len(manifest.files)} files, {size} bytes, and is intact")
        if manifest.master_key == KEY_GIVEN:
            print("cns: CNS_MASTER_KEY is not in it: keep it elsewhere", file=sys.stderr)
