"""The URL of the service and the key of the caller: options, environment, or a profile in `~/.config/cns/config.toml`.

[profiles.default]
url = "http://127.0.0.1:6059"
key_id = "AKIA…"
secret = "…"
region = "us-east-1"
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec
import typer

from cns.client import ApiError, Client, Credentials
from cns.client.connection import find_caller
from cns.client.values import Caller
from cns_cli.output import refuse
from cns_common.errors import UNREADABLE

EXIT_REFUSED = 1
EXIT_UNREACHABLE = 69
CONFIG = Path("cns") / "config.toml"
DEFAULT_PROFILE = "default"
Result = TypeVar("Result")

Profile = Annotated[
    str, typer.Option("--profile", envvar="CNS_PROFILE", help="A profile of ~/.config/cns/config.toml.")
]
Url = Annotated[str, typer.Option("--url", envvar="CNS_URL", help="The service. Default: AWS_ENDPOINT_URL.")]
Region = Annotated[str, typer.Option("--region", help="Default: AWS_REGION, else the service's own.")]


class StoredProfile(msgspec.Struct, forbid_unknown_fields=True):
    url: str = ""
    key_id: str = ""
    secret: str = ""
    token: str = ""
    region: str = ""


class _Config(msgspec.Struct):
    profiles: dict[str, StoredProfile] = {}


class UsageError(Exception):
    """A setting of the connection is missing or wrong; the text says which."""


def find_profile(name: str, url: str, region: str, environment: Mapping[str, str]) -> StoredProfile:
    """Return the complete settings of the connection. Raises UsageError."""
    found = read_settings(name, url, region, environment)
    if not found.url:
        raise UsageError("no service is named: use --url, AWS_ENDPOINT_URL or a profile")
    if not is_address(found.url):
        raise UsageError(f"{found.url!r} is not the URL of a service, such as http://127.0.0.1:6059")
    if not (found.token.isascii() and found.token.isprintable()):
        raise UsageError("the token of the profile has invalid characters")
    if not (found.key_id or found.token):
        raise UsageError("no access key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a profile")
    return found


def is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        return parts.scheme in ("http", "https") and bool(host) and parts.port != 0
    except ValueError:  # brackets, a port above 65535, or an invalid host name
        return False


def read_settings(name: str, url: str, region: str, environment: Mapping[str, str]) -> StoredProfile:
    """Return the settings of the connection; missing ones are empty. Options take precedence over the environment, and
    that over the profile, unless the profile is named. Raises UsageError."""
    stored = _read_profile(name, environment)
    given = StoredProfile(
        url=environment.get("AWS_ENDPOINT_URL", ""),
        key_id=environment.get("AWS_ACCESS_KEY_ID", ""),
        secret=environment.get("AWS_SECRET_ACCESS_KEY", ""),
        region=environment.get("AWS_REGION", "") or environment.get("AWS_DEFAULT_REGION", ""),
    )
    first, second = (stored, given) if name else (given, stored)
    keys = first if first.key_id or first.token else second
    return StoredProfile(
        url=url or first.url or second.url,
        key_id=keys.key_id,
        secret=keys.secret,
        token=keys.token,
        region=region or first.region or second.region,
    )


def config_path(environment: Mapping[str, str]) -> Path:
    home = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return Path(home) / CONFIG


def read_profiles(text: str) -> dict[str, StoredProfile]:
    """The profiles of a configuration file. Raises one of UNREADABLE."""
    return msgspec.convert(tomllib.loads(text), _Config).profiles


def _read_profile(name: str, environment: Mapping[str, str]) -> StoredProfile:
    path = config_path(environment)
    try:
        profiles = read_profiles(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        profiles = {}
    except (OSError, *UNREADABLE) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    found = profiles.get(name or DEFAULT_PROFILE)
    if found is None and name:
        raise UsageError(f"{path} has no profile {name}")
    return found or StoredProfile()


@dataclass(frozen=True, slots=True)
class Service:
    """The connection options of a command."""

    profile: str
    url: str
    region: str

    def run(self, work: Callable[[Client], Result]) -> Result:
        """Return the result of `work`. A refusal, or no answer of the service, ends the command with one line."""
        return self.run_as(lambda client, _found, _caller: work(client))

    def settings(self) -> StoredProfile:
        """What is given of the connection. Raises UsageError."""
        return read_settings(self.profile, self.url, self.region, os.environ)  # noqa: TID251  # variables of AWS SDKs, no settings

    def run_as(self, work: Callable[[Client, StoredProfile, Caller], Result]) -> Result:
        """As `run`, for work that needs the settings of the connection and the caller."""
        try:
            found = find_profile(self.profile, self.url, self.region, os.environ)  # noqa: TID251  # variables of AWS SDKs, no settings
            credentials = Credentials(key_id=found.key_id, secret=found.secret, token=found.token)
            caller = find_caller(found.url, credentials)
            if not caller.account:
                raise UsageError("an operator token cannot use queues and topics: use an access key")
            with Client(found.url, caller.account, credentials, region=found.region) as client:
                return work(client, found, caller)
        except UsageError as error:
            refuse(error)
        except ApiError as error:
            refuse(f"{error.code}: {error.detail}", EXIT_REFUSED)
        except (UnicodeDecodeError, UnicodeEncodeError):  # arguments are text: see `main`
            refuse("standard input is not text in UTF-8")
        except httpx.InvalidURL as error:
            refuse(f"{found.url!r} is not a URL: {error}")
        except httpx.HTTPError as error:
            refuse(f"{found.url} does not answer: {error}", EXIT_UNREACHABLE)
        except KeyboardInterrupt:
            sys.exit(0)


def with_service(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the first parameter of a command, a `Service`, by the options --profile, --url and --region."""

    @wraps(command)
    def called(*, profile: str, url: str, region: str, **options: Any) -> None:
        command(Service(profile, url, region), **options)

    _, *own = [
        parameter.replace(kind=Parameter.KEYWORD_ONLY)
        for parameter in signature(command, eval_str=True).parameters.values()
    ]
    added = {"profile": Profile, "url": Url, "region": Region}
    connection = [
        Parameter(name, Parameter.KEYWORD_ONLY, default="", annotation=annotation) for name, annotation in added.items()
    ]
    called.__signature__ = Signature([*own, *connection])  # type: ignore[attr-defined]  # Typer reads it
    return called
