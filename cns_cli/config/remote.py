"""Calls of a running service by an AWS client."""

from __future__ import annotations

import sys
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cns.client.values import Caller
from cns_cli.output import refuse
from cns_cli.remote.connection import EXIT_REFUSED, EXIT_UNREACHABLE, StoredProfile, UsageError
from cns_common.errors import RequestError


class RemoteCalls:
    """As the owner of an access key. No answer ends the command."""

    def __init__(self, profile: StoredProfile, caller: Caller) -> None:
        if not profile.key_id:
            raise UsageError("a token cannot sign calls: use an access key")
        self.account = caller.account
        self.region = profile.region or caller.region
        self._url = profile.url
        try:
            session = botocore.session.get_session()
            self._clients = {
                service: session.create_client(
                    service,
                    region_name=self.region,
                    endpoint_url=profile.url,
                    aws_access_key_id=profile.key_id,
                    aws_secret_access_key=profile.secret,
                    config=Config(parameter_validation=False),  # the service refuses in AWS's words
                )
                for service in ("sqs", "sns")
            }
        except BotoCoreError as error:  # a profile or file of AWS's that cannot be read
            raise UsageError(str(error)) from None

    def of(self, number: str) -> RemoteCalls:
        """The calls for a part of a file: of the caller's account alone. Ends the command for others."""
        if number not in ("", self.account):
            refuse(f"the key is of account {self.account}, and the file is also for {number}", EXIT_REFUSED)
        if number:
            text = "cns: names, users and keys of accounts stay as they are: `cns up --init` and `cns account` set them"
            print(text, file=sys.stderr)
        return self

    async def run(self, service: str, action: str, **params: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self._clients[service], xform_name(action))(**params)
        except ClientError as error:
            raise RequestError(error.response["Error"]["Code"], error.response["Error"]["Message"]) from None
        except BotoCoreError as error:
            refuse(f"{self._url} does not answer: {error}", EXIT_UNREACHABLE)
        return answer
