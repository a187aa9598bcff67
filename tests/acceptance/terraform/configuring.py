"""Short forms for blocks of a Terraform configuration."""

from __future__ import annotations

import json

from tests.acceptance.terraform.resource import Config


def config(**values: str) -> Config:
    return Config(values=values)


def tagged(**tags: str) -> Config:
    return Config(values={}, tags=tags)


def policy(action: str, resource: str, principal: object, **condition: object) -> str:
    """A policy as a person writes it."""
    allow = {"Effect": "Allow", "Principal": principal, "Action": [action], "Resource": resource}
    statement = allow | ({"Condition": condition} if condition else {})
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)
