"""Applies the file of `CNS_INIT` inside a process of the service."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from cns_backend.backend import Backend
from cns_backend.urls import base_url
from cns_cli.config.changes import DONE, Action, plan_file, run_steps
from cns_cli.config.document import read_source
from cns_cli.config.source import ConfigError
from cns_common.aws.call import Call, root_caller
from cns_common.aws.front_door import FrontDoor
from cns_common.configuration.settings import Settings
from cns_common.errors import EXIT_SETTINGS_WRONG, StartError
from cns_common.ids import uuid_text


class ServiceCalls:
    """As the root of an account."""

    def __init__(self, front: FrontDoor, settings: Settings, account: str) -> None:
        self.account = account
        self.region = settings.region
        self._front = front
        self._base_url = base_url(settings)

    async def run(self, service: str, action: str, **params: Any) -> dict[str, Any]:
        caller = root_caller(self.account)
        call = Call(caller=caller, region=self.region, request_id=uuid_text(), base_url=self._base_url)
        return await self._front.run("sns" if service == "sns" else "sqs", action, call, params)


async def apply_file(path: Path, settings: Settings, backend: Backend, front: FrontDoor) -> None:
    """Several processes may do so at once: each call has the same result when it is repeated. Raises StartError."""
    done: Counter[Action] = Counter()
    try:
        calls = ServiceCalls(front, settings, await _account(settings, backend))
        await run_steps(await plan_file(read_source(str(path)), calls), lambda change: done.update([change.action]))
    except ConfigError as error:
        raise StartError("\ncns: ".join(error.lines), EXIT_SETTINGS_WRONG) from None
    counts = ", ".join([f"{count} {DONE[action]}" for action, count in done.items()])
    print(f"cns: {path}: {counts or 'it declares nothing'}", flush=True)  # for a person


async def _account(settings: Settings, backend: Backend) -> str:
    if settings.auth == "off":
        return settings.account_id
    known = await backend.accounts.accounts()
    if len(known) != 1:
        raise StartError(f"CNS_INIT: there are {len(known)} accounts, and the file is for one", EXIT_SETTINGS_WRONG)
    return known[0].account
