"""The records of platform applications and of mobile endpoints."""

from __future__ import annotations

import msgspec

from cns_common.arn import Arn
from cns_common.store_keys import Key

_KEYS = {"FCM": "GCM"}
"""Platforms whose key in a message of MessageStructure=json is not their own name."""


class PlatformApplication(msgspec.Struct, frozen=True, kw_only=True):
    """`id` identifies one incarnation: an application that is deleted and created again has none of its earlier
    endpoints. `version` rises with each change. Secrets are stored encrypted, and never shown."""

    id: Key
    account: Key
    region: Key
    platform: Key
    name: Key
    created_ms: int
    version: int = 1
    attributes: dict[str, str] = {}
    secrets: dict[str, str] = {}

    @property
    def arn(self) -> str:
        return str(Arn("aws", "sns", self.region, self.account, f"app/{self.platform}/{self.name}"))

    @property
    def enabled(self) -> bool:
        return self.attributes.get("Enabled", "true") == "true"


class MobileEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A device in an application. The attributes are Token, Enabled and, if it was set, CustomUserData."""

    id: Key  # a UUID
    application_arn: Key
    application_id: Key
    created_ms: int
    version: int = 1
    attributes: dict[str, str]

    @property
    def arn(self) -> str:
        return f"{self.application_arn.replace(':app/', ':endpoint/', 1)}/{self.id}"

    @property
    def token(self) -> str:
        return self.attributes["Token"]

    @property
    def enabled(self) -> bool:
        return self.attributes["Enabled"] == "true"


def text_key(endpoint_arn: str) -> str:
    """The key of the text for an endpoint in a message of MessageStructure=json."""
    platform = endpoint_arn.split("/")[1].upper()
    return _KEYS.get(platform, platform)


def endpoint_id_of(arn: str) -> str:
    return arn.rpartition("/")[2]
