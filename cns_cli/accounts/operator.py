"""`cns operator …`: credentials of the service's operators."""

from __future__ import annotations

from typing import Annotated

import typer

from cns_cli.activity import recorded
from cns_cli.durations import duration_ms
from cns_cli.options import Data, Json
from cns_cli.output import print_value
from cns_common.clock import Clock
from cns_common.configuration.settings import load_settings
from cns_common.sealing import Seal, load_master_key
from cns_server.rest.operator_tokens import OperatorToken, operator_key
from cqs.stores.receipt_key import derived_receipt_key

LIFE_DAYS_MAX = 36_500
LIFE_MS_MAX = LIFE_DAYS_MAX * 86_400_000

app = typer.Typer(help="Credentials of operators.", no_args_is_help=True, add_completion=False)


@app.callback()
def group() -> None:
    """Credentials of operators."""


@app.command("token")
def token(
    life: Annotated[str, typer.Option(help="How long it is valid: 30m, 12h, 7d.")] = "12h",
    data: Data = None,
    json: Json = False,
) -> None:
    """Print a token that allows the administration of accounts over the REST API. The master key signs it."""
    life_ms = duration_ms(life)
    if life_ms is None:
        raise typer.BadParameter(f"{life!r} is not a duration such as 30m, 12h or 7d", param_hint="--life")
    if not 0 < life_ms <= LIFE_MS_MAX:
        raise typer.BadParameter(f"{life!r} is not within 1s and {LIFE_DAYS_MAX}d", param_hint="--life")
    settings = load_settings(data)
    seal = Seal(load_master_key(settings.data, settings.master_key, may_make=False))
    key = operator_key(derived_receipt_key(seal))
    expires_s = (Clock().real_ms() + life_ms) // 1000
    with recorded(data, "MakeOperatorToken", detail=f"valid for {life}"):
        made = OperatorToken(expires_s).signed(key)
    print_value({"token": made, "expiresAt": expires_s * 1000}, made, json=json)
