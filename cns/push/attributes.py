"""The attributes of applications and of endpoints: their names and their valid values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from cns.arns import topic_fault
from cns.errors import AT_CREATION, invalid_parameter
from cns.limits import SAMPLE_RATE_MAX
from cns_common.arn import parse_arn

APPLICATION_NAME_CHARS_MAX = 256
USER_DATA_BYTES_MAX = 2_048
SECRET_CHARS_MAX = 30_720
TEXT_CHARS_MAX = 2_048
TOKEN_CHARS_MAX = 4_096

PLATFORMS = frozenset(
    {"ADM", "BAIDU", "Baidu", "FCM", "GCM", "MPNS", "WNS"}
    | {"APNS", "APNS_SANDBOX", "APNS_VOIP", "APNS_VOIP_SANDBOX", "MACOS", "MACOS_SANDBOX"}
)
EVENTS = ("EventEndpointCreated", "EventEndpointDeleted", "EventEndpointUpdated", "EventDeliveryFailure")
_CREDENTIAL, _PRINCIPAL = SECRETS = ("PlatformCredential", "PlatformPrincipal")
"""Never shown."""
_WITHOUT_PRINCIPAL = frozenset({"GCM", "FCM"})
_LOWER_CASE_TOKENS = ("APNS", "MACOS")
"""Prefixes of platforms whose tokens are hexadecimal: Apple's."""

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_NO_TEXT = re.compile("[\ud800-\udfff]")  # a lone surrogate

_Check = Callable[[str], str | None]  # value → the error ('': no details), None if valid


def check_application_name(name: str) -> None:
    reason = ""
    if not name:
        reason = "cannot be empty"
    elif len(name) > APPLICATION_NAME_CHARS_MAX:
        reason = f"must be at most {APPLICATION_NAME_CHARS_MAX} characters long"
    elif not _NAME.fullmatch(name):
        reason = "must contain only characters 'a'-'z', 'A'-'Z', '0'-'9', '_', '-', and '.'"
    if reason:
        raise invalid_parameter(f"{name} Reason: {reason}")


def check_platform(platform: str) -> None:
    if platform not in PLATFORMS:
        raise invalid_parameter(f"Platform Reason: {platform} is not supported")


def check_application(given: Mapping[str, str]) -> None:
    """Check an application's attributes, at creation or later."""
    _check_each(given, _APPLICATION_CHECKS)


def check_secrets(platform: str, given: Mapping[str, str]) -> None:
    """At creation, a platform that has two secrets needs both or neither."""
    if _PRINCIPAL in given and _CREDENTIAL not in given:
        raise invalid_parameter(f"{AT_CREATION}{_PRINCIPAL} attribute provided without {_CREDENTIAL}")
    if _CREDENTIAL in given and _PRINCIPAL not in given and platform not in _WITHOUT_PRINCIPAL:
        raise invalid_parameter(f"{AT_CREATION}{_CREDENTIAL} attribute provided without {_PRINCIPAL}")


def split_secrets(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split attributes into those that may be shown, and secrets."""
    shown = {name: text for name, text in given.items() if name not in SECRETS}
    return shown, {name: text for name, text in given.items() if name in SECRETS}


def merge(current: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """An empty value removes an attribute."""
    return {name: text for name, text in {**current, **changes}.items() if text}


def application_attributes(given: Mapping[str, str]) -> dict[str, str]:
    """The values to store: booleans in lower case."""
    return {name: text.lower() if name == "Enabled" else text for name, text in given.items()}


def check_endpoint(given: Mapping[str, str]) -> None:
    _check_each(given, _ENDPOINT_CHECKS)


def endpoint_attributes(platform: str, given: Mapping[str, str]) -> dict[str, str]:
    """The values to store: booleans and Apple's tokens in lower case."""
    stored = dict(given)
    if "Enabled" in stored:
        stored["Enabled"] = stored["Enabled"].lower()
    if "Token" in stored and platform.startswith(_LOWER_CASE_TOKENS):
        stored["Token"] = stored["Token"].lower()
    return stored


def _check_each(given: Mapping[str, str], checks: Mapping[str, _Check]) -> None:
    for name, text in given.items():
        check = checks.get(name)
        if check is None:  # unknown or read-only
            raise invalid_parameter(f"{AT_CREATION}Invalid attribute name: {name}")
        wrong = check(text)
        if wrong is not None:
            more = f": {wrong}" if wrong else ""
            raise invalid_parameter(f"{AT_CREATION}Invalid value for attribute: {name}{more}")


def _secret(text: str) -> str | None:
    """A key or a certificate, which may have several lines."""
    if not text:
        return "cannot be empty"
    return None if len(text) <= SECRET_CHARS_MAX and not _NO_TEXT.search(text) else ""


def _event_topic(text: str) -> str | None:
    """A topic of any region that this service has."""
    return None if not text or topic_fault(text, "", "") is None else ""


def _role(text: str) -> str | None:
    arn = parse_arn(text)
    good = arn is not None and arn.service == "iam" and arn.resource.startswith("role/") and text.isprintable()
    return None if not text or good else ""


def _rate(text: str) -> str | None:
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(SAMPLE_RATE_MAX))
    if not text or (digits and int(text) <= SAMPLE_RATE_MAX):
        return None
    return f"{text} value provided is not an integer between 0-{SAMPLE_RATE_MAX}"


def _boolean(text: str) -> str | None:
    return None if text.lower() in ("true", "false") else ""


def _text(text: str) -> str | None:
    return None if len(text) <= TEXT_CHARS_MAX and (text.isprintable() or not text) else ""


def _token(text: str) -> str | None:
    if not text:
        return "cannot be empty"
    return None if len(text) <= TOKEN_CHARS_MAX and text.isprintable() else ""


def _user_data(text: str) -> str | None:
    if len(text.encode(errors="surrogatepass")) > USER_DATA_BYTES_MAX:
        return f"must be at most {USER_DATA_BYTES_MAX} bytes long in UTF-8 encoding"
    return "" if _NO_TEXT.search(text) else None


_APPLICATION_CHECKS: Mapping[str, _Check] = {
    **dict.fromkeys(SECRETS, _secret),
    **dict.fromkeys(EVENTS, _event_topic),
    "SuccessFeedbackRoleArn": _role,
    "FailureFeedbackRoleArn": _role,
    "SuccessFeedbackSampleRate": _rate,
    "ApplePlatformTeamID": _text,
    "ApplePlatformBundleID": _text,
    "Enabled": _boolean,
}
_ENDPOINT_CHECKS: Mapping[str, _Check] = {"Token": _token, "Enabled": _boolean, "CustomUserData": _user_data}
