"""A resource as the provider manages it: create, read, update, delete, and the plan that must be empty.

Where the provider waits and looks again, this looks at once: a change that has to propagate is a fault here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from botocore.exceptions import ClientError

from tests.acceptance.terraform.schema import Schema, Values, differences


@dataclass(frozen=True, kw_only=True)
class Config:
    """The values of a resource's block, by the API's names, and the values read back."""

    values: Values
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Resource(ABC):
    """`key` is what Terraform keeps in its state."""

    client: Any
    schema: Schema

    @abstractmethod
    def create(self, wanted: Config) -> str: ...

    @abstractmethod
    def read(self, key: str) -> Config | None:
        """The read values, or None when the provider would drop the resource from its state."""

    @abstractmethod
    def update(self, key: str, before: Config, after: Config) -> None: ...

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete the resource. Returns when the provider would report that it is gone."""

    def plan(self, key: str, wanted: Config) -> dict[str, tuple[str, str]]:
        """The differences that `terraform plan` would show: configured and found values."""
        found = self.read(key)
        assert found is not None, f"{key} would be created anew"
        plan = differences(self.schema, wanted.values, found.values)
        return plan if found.tags == wanted.tags else plan | {"tags": (str(wanted.tags), str(found.tags))}


def apply(resource: Resource, *configs: Config) -> str:
    """Create by the first configuration and update to each of the others. Each must leave an empty plan."""
    key = resource.create(configs[0])
    _must_be_done(resource, key, configs[0])
    for before, after in pairwise(configs):
        resource.update(key, before, after)
        _must_be_done(resource, key, after)
    return key


def destroy(resource: Resource, key: str) -> None:
    resource.delete(key)
    assert resource.read(key) is None


def _must_be_done(resource: Resource, key: str, wanted: Config) -> None:
    plan = resource.plan(key, wanted)
    assert not plan, f"a plan would change {plan}"


def found(call: Any, code: str, **params: Any) -> dict[str, Any] | None:
    """The answer, or None for the one error that means that the resource does not exist."""
    try:
        answer: dict[str, Any] = call(**params)
    except ClientError as error:
        if error.response["Error"]["Code"] != code:
            raise
        return None
    return answer
