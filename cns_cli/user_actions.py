"""`cns account user …`: named users of an account and their keys, on the store that `cns account` uses."""

from __future__ import annotations

from pathlib import Path

from cns_cli.account_actions import print_key, run_on_accounts
from cns_common.aws.auth.users import User


def add(account: str, name: str, data: Path | None) -> None:
    print_key(run_on_accounts(data, lambda store, now_ms: store.add_user(account, name, now_ms)), data)


def add_key(account: str, name: str, data: Path | None) -> None:
    print_key(run_on_accounts(data, lambda store, now_ms: store.add_user_key(account, name, now_ms)), data)


def show_all(account: str, data: Path | None) -> None:
    for user in run_on_accounts(data, lambda store, _: store.users(account)):
        for line in _lines(user):
            print(line)


def set_active(account: str, name: str, active: bool, data: Path | None) -> None:
    run_on_accounts(data, lambda store, _: store.set_user_active(account, name, active))


def set_key_active(account: str, name: str, key_id: str, active: bool, data: Path | None) -> None:
    run_on_accounts(data, lambda store, _: store.set_user_key_active(account, name, key_id, active))


def delete(account: str, name: str, data: Path | None) -> None:
    run_on_accounts(data, lambda store, _: store.delete_user(account, name))


def delete_key(account: str, name: str, key_id: str, data: Path | None) -> None:
    run_on_accounts(data, lambda store, _: store.delete_user_key(account, name, key_id))


def _lines(user: User) -> list[str]:
    whose = f"{user.name} {user.user_id} {_state(user.active)}"
    return [f"{whose} {key.key_id} {_state(key.active)}" for key in user.keys] or [whose]


def _state(active: bool) -> str:
    return "active" if active else "disabled"
