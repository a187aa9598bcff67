"""The SMS attributes of accounts and of single messages: their names and valid values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from cns.errors import invalid_parameter
from cns.limits import SAMPLE_RATE_MAX
from cns.notification import Attributes
from cns_common.arn import parse_arn
from cns_common.errors import RequestError

DEFAULTS: Mapping[str, str] = {"MonthlySpendLimit": "1"}
"""The attributes of a new account."""
SMS_TYPES = ("Promotional", "Transactional")
SPEND_LIMIT_DIGITS_MAX = 9

_SENDER_ID = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9]{1,11}")
_MESSAGE_SENDER_ID = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9-]{1,11}")
_ORIGINATION_NUMBER = re.compile(r"\+?[0-9]{5,15}|[A-Za-z0-9-]{1,11}")
_REGISTRATION_ID = re.compile(r"[!-~]{1,50}")
_PRICE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def check_account_attributes(given: Mapping[str, str]) -> None:
    """Check the attributes of SetSMSAttributes; an empty value removes one. AWS omits its usual error prefix here."""
    for name, text in given.items():
        good = _ACCOUNT_CHECKS.get(name)
        if good is None:
            raise RequestError("InvalidParameter", f"{name} is not a valid attribute")
        if text and not good(text):
            raise RequestError("InvalidParameter", _ERROR_TEXTS.get(name, f"{name} is invalid"))


def visible_attributes(stored: Mapping[str, str], wanted: Sequence[str]) -> dict[str, str]:
    """The attributes that GetSMSAttributes shows: those wanted, or all."""
    return {name: text for name, text in {**DEFAULTS, **stored}.items() if not wanted or name in wanted}


def check_message_attributes(attributes: Attributes) -> None:
    """Check the attributes of a message that control how its SMS is sent. Ignore others."""
    for name, (data_type, text) in attributes.items():
        rule = _MESSAGE_CHECKS.get(name)
        if rule is not None and not (data_type == rule[0] and rule[1](text)):
            raise invalid_parameter(name)


def _spend_limit(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= SPEND_LIMIT_DIGITS_MAX


def _rate(text: str) -> bool:
    return _spend_limit(text) and int(text) <= SAMPLE_RATE_MAX


def _role(text: str) -> bool:
    arn = parse_arn(text)
    return arn is not None and arn.service == "iam" and arn.resource.startswith("role/") and text.isprintable()


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


_ACCOUNT_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "MonthlySpendLimit": _spend_limit,
    "DeliveryStatusIAMRole": _role,
    "DeliveryStatusSuccessSamplingRate": _rate,
    "DefaultSenderID": _matches(_SENDER_ID),
    "DefaultSMSType": SMS_TYPES.__contains__,
    "UsageReportS3Bucket": _matches(_BUCKET),
}
_ERROR_TEXTS: Mapping[str, str] = {"DefaultSenderID": "DefaultSendID is not a valid attribute"}  # AWS's spelling
_MESSAGE_CHECKS: Mapping[str, tuple[str, Callable[[str], bool]]] = {
    "AWS.SNS.SMS.SenderID": ("String", _matches(_MESSAGE_SENDER_ID)),
    "AWS.SNS.SMS.MaxPrice": ("Number", _matches(_PRICE)),
    "AWS.SNS.SMS.SMSType": ("String", SMS_TYPES.__contains__),
    "AWS.MM.SMS.OriginationNumber": ("String", _matches(_ORIGINATION_NUMBER)),
    "AWS.MM.SMS.EntityId": ("String", _matches(_REGISTRATION_ID)),
    "AWS.MM.SMS.TemplateId": ("String", _matches(_REGISTRATION_ID)),
}
