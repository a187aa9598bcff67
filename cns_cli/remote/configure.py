"""`cns configure`: writes the address and key into a profile of `~/.config/cns/config.toml`."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from json import dumps
from typing import Annotated

import typer

from cns_cli.options import Yes, confirm
from cns_cli.output import refuse
from cns_cli.remote import connection
from cns_common.errors import UNREADABLE

VARIABLES = {
    "url": "AWS_ENDPOINT_URL",
    "key_id": "AWS_ACCESS_KEY_ID",
    "secret": "AWS_SECRET_ACCESS_KEY",
    "region": "AWS_REGION",
}


def configure(
    name: Annotated[str, typer.Argument(metavar="[PROFILE]")] = connection.DEFAULT_PROFILE,
    url: connection.Url = "",
    yes: Yes = False,
) -> None:
    """Write AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION into a profile, for commands
    without these variables. Example: cns configure work --url https://cns.example.com
    """
    environment = os.environ  # noqa: TID251  # variables of AWS SDKs, no settings
    found = {member: environment.get(variable, "") for member, variable in VARIABLES.items()}
    profile = connection.StoredProfile(**found | {"url": url or found["url"]})
    if not (profile.key_id and profile.secret):
        refuse("no access key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    if not connection.is_address(profile.url):
        refuse(f"{profile.url!r} is not the URL of a service, such as http://127.0.0.1:6059")
    path = connection.config_path(environment).resolve()
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        former = connection.read_profiles(text)
        if name in former:
            confirm(f"Replace the profile {name}, of the key {former[name].key_id}?", yes=yes)
        text = _with_profile(text, name, profile)
        written = None
        with suppress(*UNREADABLE):  # the profile is there twice
            written = connection.read_profiles(text)
        if written != {**former, name: profile}:
            refuse(f"{path}: the profile {name} is written in another way than [profiles.{name}]: change it by hand")
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.unlink(missing_ok=True)
        new.touch(0o600)
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except (OSError, *UNREADABLE) as error:
        refuse(f"{path} cannot be changed: {error}")
    print(f"cns: the profile {name} is in {path}; `cns doctor --profile {name}` tries it", file=sys.stderr)


def _with_profile(text: str, name: str, profile: connection.StoredProfile) -> str:
    """The text of the file with this profile; comments outside of it and other profiles stay."""
    title = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else dumps(name, ensure_ascii=False)
    lines = [
        f"{each} = {dumps(value, ensure_ascii=False)}\n" for each in VARIABLES if (value := getattr(profile, each))
    ]
    block = "".join([f"[profiles.{title}]\n", *lines])
    former = re.compile(rf"^\[profiles\.{re.escape(title)}\].*?(?=^\s*\[|\Z)", re.MULTILINE | re.DOTALL)
    if former.search(text):
        return former.sub(lambda _: block + "\n", text, count=1)
    return f"{text.rstrip()}\n\n{block}".lstrip()
