"""Applies the file of `CNS_INIT` inside a process of the service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cns_backend.backend import Backend
from cns_backend.urls import base_url
from cns_cli.config.accounts import AccountPlanner
from cns_cli.config.changes import DONE, Action, plan_file, read_parts, run_steps
from cns_cli.config.document import Document, read_file
from cns_cli.config.resources import NoCalls, only_account
from cns_cli.config.source import ConfigError
from cns_common.aws.auth.accounts import AccountStore
from cns_common.aws.call import Call, root_caller
from cns_common.aws.front_door import FrontDoor
from cns_common.clock import Clock
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


def read_init_file(path: Path) -> Document:
    """Raises StartError for a text that is neither YAML nor JSON."""
    with _start_errors():
        return read_file(str(path))


async def apply_accounts(document: Document, settings: Settings, store: AccountStore, clock: Clock) -> None:
    """Make the accounts of the file, before the first start makes one by itself. Raises StartError."""
    only = [one.account for one in await store.accounts()] if settings.auth == "on" else []
    caller = only[0] if len(only) == 1 else settings.account_id
    with _start_errors():
        read_parts(document, lambda number: NoCalls(number or caller, settings.region))
        await run_steps(await AccountPlanner(document, settings, store, clock).plan(), lambda _: None)


async def apply_resources(document: Document, settings: Settings, backend: Backend, front: FrontDoor) -> None:
    """Make the rest. Several processes may do so at once: each call has the same result when it is repeated. Raises
    StartError."""
    done: Counter[Action] = Counter()
    known = [one.account for one in await backend.accounts.accounts()]

    def calls_of(number: str) -> ServiceCalls:
        single = settings.account_id if settings.auth == "off" else ""
        return ServiceCalls(front, settings, number or single or only_account(known))

    with _start_errors():
        await run_steps(await plan_file(document, calls_of), lambda change: done.update([change.action]))
    counts = ", ".join([f"{count} {DONE[action]}" for action, count in done.items()])
    print(f"cns: {document.source.name}: {counts or 'it declares nothing'}", flush=True)  # for a person


@contextmanager
def _start_errors() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise StartError("\ncns: ".join(error.lines), EXIT_SETTINGS_WRONG) from None
