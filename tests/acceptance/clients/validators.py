"""Signature validators that others wrote, set up as docs/guide.md says, and their verdicts on messages."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from sns_message_validator import SNSMessageValidator
from sns_message_validator import exceptions as python_refusals

from lab.harness.language_tools import find_jdk
from lab.harness.service import REGION
from lab.harness.waiting import PATIENCE_S
from tests.clients.installing import installed

ACCEPTED = ""
IN_EVENT = "in a function's event"
UNSUBSCRIBED = "UnsubscribeConfirmation"
KINDS = (
    "SubscriptionConfirmation",
    "Notification",
    "with a subject",
    "with attributes",
    "in other letters",
    "in a queue",
    IN_EVENT,
    UNSUBSCRIBED,
)
VERSIONS = ("1", "2")
STORE_PASSWORD = "changeit"
PYTHON_REFUSALS = (
    python_refusals.InvalidCertURLException,
    python_refusals.InvalidSignatureVersionException,
    python_refusals.SignatureVerificationFailureException,
)

Message = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The host in SigningCertURL: public by name, in truth this machine."""

    host: str
    port: int
    ca_file: Path

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class Validator:
    """A validator, set up as the guide says.

    `verdicts` are why it refuses each message, or ACCEPTED. The other fields are its texts for a wrong signature, for
    one of another version, for a certificate at another host or without TLS, and the messages that it cannot judge,
    AWS's own included, by kind and version."""

    host: str
    verdicts: Callable[[Origin, Sequence[Message]], list[str]]
    forged: str
    other_version: str
    elsewhere: str
    insecure: str
    beyond: Mapping[tuple[str, str], str]

    def knows(self, version: str) -> bool:
        return any((kind, version) not in self.beyond for kind in KINDS)


def host_in(region: str) -> str:
    """The host of SNS in a region of AWS."""
    return f"sns.{region}.amazonaws.com"


def ask_java(origin: Origin, questions: Sequence[tuple[str, Message]]) -> list[str]:
    """The verdict of the message manager of a region on each message. The hosts of all regions are this machine."""
    hosts, trusted = origin.ca_file.with_name("hosts"), origin.ca_file.with_name("trusted.p12")
    hosts.write_text("".join(f"127.0.0.1 {host_in(region)}\n" for region in {region for region, _ in questions}))
    if not trusted.exists():
        _import_into(trusted, origin.ca_file)
    options = (
        f"-Djdk.net.hosts.file={hosts}"
        f" -Djavax.net.ssl.trustStore={trusted} -Djavax.net.ssl.trustStorePassword={STORE_PASSWORD}"
    )
    lines = (f"{region}\t{json.dumps(message)}" for region, message in questions)
    return _asked(installed("message-manager"), lines, JDK_JAVA_OPTIONS=options)


def _by_javascript(origin: Origin, messages: Sequence[Message]) -> list[str]:
    command = [*installed("sns-validator"), f"^{re.escape(origin.host)}:{origin.port}$"]
    lines = _asked(command, map(json.dumps, messages), NODE_EXTRA_CA_CERTS=str(origin.ca_file))
    return [json.loads(line) or ACCEPTED for line in lines]


def _by_python(origin: Origin, messages: Sequence[Message]) -> list[str]:
    validator = SNSMessageValidator(cert_url_regex=f"^{re.escape(origin.url)}/")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("REQUESTS_CA_BUNDLE", str(origin.ca_file))
        return [_of_python(validator, message) for message in messages]


def _of_python(validator: SNSMessageValidator, message: Message) -> str:
    try:
        validator.validate_message(message)
    except PYTHON_REFUSALS as refusal:
        return str(refusal)
    return ACCEPTED


def _by_java(origin: Origin, messages: Sequence[Message]) -> list[str]:
    region = origin.host.split(".")[1]
    return ask_java(origin, [(region, message) for message in messages])


def _import_into(store: Path, ca_file: Path) -> None:
    keytool = [f"{find_jdk()}/bin/keytool", "-importcert", "-noprompt", "-alias", "cns", "-file", str(ca_file)]
    subprocess.run([*keytool, "-keystore", str(store), "-storepass", STORE_PASSWORD], check=True, capture_output=True)


def _asked(command: list[str], lines: Iterable[str], **environment: str) -> list[str]:
    """Run a program that answers each line with one line."""
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


VALIDATORS: Mapping[str, Validator] = MappingProxyType(
    {
        "sns-validator": Validator(
            host="localhost",
            verdicts=_by_javascript,
            forged="The message signature is invalid.",
            other_version="The message signature is invalid.",
            elsewhere="The certificate is located on an invalid domain.",
            insecure="The certificate is located on an invalid domain.",
            # this validator leaves out the Token, as if the message were a Notification
            beyond={(UNSUBSCRIBED, version): "The message signature is invalid." for version in VERSIONS},
        ),
        "aws-sns-message-validator": Validator(
            host="localhost",
            verdicts=_by_python,
            forged="Invalid signature.",
            other_version="Invalid signature version. Unable to verify signature.",
            elsewhere="Invalid certificate URL.",
            insecure="Invalid certificate URL.",
            # set to version 2, this validator still verifies by SHA-1
            beyond={(IN_EVENT, "1"): "Could not find SigningCertURL field in message."}
            | {(kind, "2"): "Invalid signature version. Unable to verify signature." for kind in KINDS},
        ),
        "SnsMessageManager": Validator(
            host=host_in(REGION),
            verdicts=_by_java,
            forged="The computed signature did not match the expected signature",
            other_version="The computed signature did not match the expected signature",
            elsewhere=f"Certificate URL does not match expected host: {host_in(REGION)}",
            insecure="Certificate URL must use HTTPS",
            beyond={(IN_EVENT, version): "Expected field 'Subject' to be a string" for version in VERSIONS},
        ),
    }
)
