"""Check the ARNs of applications and endpoints in requests, as AWS does."""

from __future__ import annotations

from uuid import UUID

from cns.arns import PARTS
from cns.errors import invalid_parameter
from cns.push.attributes import APPLICATION_NAME_CHARS_MAX
from cns_common.arn import ACCOUNT_ID, parse_arn
from cns_common.errors import RequestError

_UUID_CHARS = 36
_APPLICATION = "PlatformApplicationArn"
_ENDPOINT = "EndpointArn"


def check_application_arn(text: str, region: str) -> None:
    _check(text, _APPLICATION, region, "app", slashes=2)


def check_endpoint_arn(text: str, region: str) -> None:
    _check(text, _ENDPOINT, region, "endpoint", slashes=3)
    endpoint_id = text.rpartition("/")[2]
    if len(endpoint_id) != _UUID_CHARS:
        raise _bad_id("UUID must be encoded in exactly 36 characters.")
    try:
        UUID(endpoint_id)
    except ValueError:
        raise _bad_id("Invalid UUID.") from None


def is_endpoint(text: str) -> bool:
    """Whether a target ARN names a mobile endpoint, which may not exist."""
    arn = parse_arn(text)
    return arn is not None and arn.resource.startswith("endpoint/")


def _check(text: str, parameter: str, region: str, kind: str, slashes: int) -> None:
    arn = parse_arn(text)
    if arn is None:
        elements = len(text.split(":"))
        if elements < PARTS:
            raise invalid_parameter(f"{parameter} Reason: An ARN must have at least {PARTS} elements, not {elements}")
        raise invalid_parameter(f"{parameter} Reason: {text} does not start with arn")
    if arn.resource.count("/") != slashes:
        raise invalid_parameter(f"{parameter} Reason: Wrong number of slashes in relative portion of the ARN.")
    here = (arn.partition, arn.service, arn.region) == ("aws", "sns", region)
    known = here and ACCOUNT_ID.fullmatch(arn.account) and arn.resource.startswith(f"{kind}/") and text.isascii()
    if not known or max(map(len, arn.resource.split("/"))) > APPLICATION_NAME_CHARS_MAX:
        raise invalid_parameter(parameter)


def _bad_id(why: str) -> RequestError:
    return invalid_parameter(f"{_ENDPOINT} Reason: ARN specifies an invalid endpointId: {why}")
