"""The region that a queue's URL names: in hosts of AWS's and LocalStack's forms, and in LocalStack's paths."""

from __future__ import annotations

import re

REGION = "[a-z]+-[a-z-]+-[0-9]+"
REGION_CHARS_MAX = 64
"""The longest name that a signature may have."""
_HOST = re.compile(rf"(?:sqs\.({REGION})|({REGION})\.queue)\.", re.ASCII)
_FIRST_REGION_HOST = re.compile(r"queue\.(?:amazonaws\.com|localhost\.localstack\.cloud)(?::|\Z)", re.ASCII)
FIRST_REGION = "us-east-1"
"""The region of the older form of host, which does not name it."""
_PATH = re.compile(r"/queue/([a-z0-9-]+)/[0-9]{12}/", re.ASCII)


def region_of_host(host: str) -> str:
    """'' when the host names no region."""
    found = _HOST.match(host)
    if found is not None:
        return found[1] or found[2]
    return FIRST_REGION if _FIRST_REGION_HOST.match(host) else ""


def region_of_path(path: str) -> str:
    """'' when the path names no region."""
    found = _PATH.match(path)
    return found[1] if found else ""
