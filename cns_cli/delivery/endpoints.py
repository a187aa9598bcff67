"""`cns endpoints`: endpoints that were recently failing or slow, from the document of the health job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cns_cli.options import Data, Json
from cns_cli.output import print_json
from cns_common.clock import Clock
from cns_common.configuration.settings import load_settings
from cns_common.data_directory import EXIT_DATA_UNUSABLE
from cns_common.endpoint_health import FILE_NAME, EndpointHealth, read_endpoint_health
from cns_common.errors import StartError
from cns_pipeline.health.labels import endpoint_lines


def endpoints(
    data: Data = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the pipeline. Default: DATA/pipeline.")] = None,
    json: Json = False,
) -> None:
    """Show endpoints that were failing or slow in the last hour that `cns pipeline health` observed.

    Example: cns endpoints --json
    """
    file = (out or load_settings(data).data / "pipeline") / "health" / FILE_NAME
    health = _read(file)
    if json:
        print_json([health])
    else:
        print("\n".join(endpoint_lines(health, Clock().real_ms())))


def _read(file: Path) -> EndpointHealth:
    try:
        return read_endpoint_health(file)
    except FileNotFoundError:
        reason = f"no endpoint was observed yet: run `cns pipeline health` ({file} is missing)"
    except (OSError, ValueError) as error:
        reason = f"{file} cannot be read: {error}"
    raise StartError(reason, EXIT_DATA_UNUSABLE)
