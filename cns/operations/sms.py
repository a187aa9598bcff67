"""SMS attributes, numbers that opted out, the SMS sandbox, origination numbers."""

from __future__ import annotations

import re

from cns.errors import constraint_violation, length_violation, null_member, required_text
from cns.limits import PAGE_SIZE
from cns.paging import read_token
from cns.sms.numbers import NumberState
from cns.sms.sandbox import SmsSandbox
from cns.sms.settings import SmsSettings
from cns_common.aws.call import Call, Params, Result

ORIGINATION_NUMBERS_MAX = 30
PASSWORD_CHARS = range(5, 9)
NUMBER_CHARS_MAX = 20
LANGUAGES = (
    *("en-US", "en-GB", "es-419", "es-ES", "de-DE", "fr-CA", "fr-FR"),
    *("it-IT", "ja-JP", "pt-BR", "kr-KR", "zh-CN", "zh-TW"),
)

_NUMBER = r"^(\+[0-9]{8,}|[0-9]{0,9})$"
_DIGITS = r"^[0-9]+$"
_STATES = {NumberState.PENDING: "Pending", NumberState.VERIFIED: "Verified"}


class SmsOperations:
    """The service's model spells some of these parameters in lower case."""

    def __init__(self, sms: SmsSettings, sandbox: SmsSandbox) -> None:
        self._sms = sms
        self._sandbox = sandbox

    # -- attributes and opt-outs --------------------------------------------------------------------------------------

    async def get_sms_attributes(self, call: Call, params: Params) -> Result:
        return {"attributes": await self._sms.attributes(call, params.get("attributes") or [])}

    async def set_sms_attributes(self, call: Call, params: Params) -> Result:
        if not params.get("attributes"):
            raise null_member("attributes")
        await self._sms.set_attributes(call, params["attributes"])
        return {}

    async def check_if_phone_number_is_opted_out(self, call: Call, params: Params) -> Result:
        return {"isOptedOut": await self._sms.is_opted_out(call, required_text(params, "phoneNumber"))}

    async def opt_in_phone_number(self, call: Call, params: Params) -> Result:
        await self._sms.opt_in(call, required_text(params, "phoneNumber"))
        return {}

    async def list_phone_numbers_opted_out(self, call: Call, params: Params) -> Result:
        numbers, token = await self._sms.opted_out(call, params.get("nextToken"))
        return {"phoneNumbers": numbers, "nextToken": token}

    async def list_origination_numbers(self, call: Call, params: Params) -> Result:
        """The list is always empty: this service has no numbers from carriers."""
        _page_size(params, ORIGINATION_NUMBERS_MAX, "ValidationException")
        read_token(params.get("NextToken"))
        return {"PhoneNumbers": []}

    # -- the sandbox --------------------------------------------------------------------------------------------------

    async def get_sms_sandbox_account_status(self, call: Call, params: Params) -> Result:
        return {"IsInSandbox": self._sandbox.enabled}

    async def create_sms_sandbox_phone_number(self, call: Call, params: Params) -> Result:
        number = _number(params)
        language = params.get("LanguageCode")
        if language is not None and language not in LANGUAGES:
            choices = ", ".join(LANGUAGES)
            raise constraint_violation(language, "languageCode", f"Member must satisfy enum value set: [{choices}]")
        await self._sandbox.add_number(call, number)
        return {}

    async def verify_sms_sandbox_phone_number(self, call: Call, params: Params) -> Result:
        number = _number(params)
        password = required_text(params, "OneTimePassword")
        if len(password) not in PASSWORD_CHARS:
            raise length_violation(password, "oneTimePassword", PASSWORD_CHARS[0], PASSWORD_CHARS[-1])
        if not re.fullmatch(_DIGITS, password, re.ASCII):
            raise constraint_violation(
                password, "oneTimePassword", f"Member must satisfy regular expression pattern: {_DIGITS}"
            )
        await self._sandbox.verify(call, number, password)
        return {}

    async def delete_sms_sandbox_phone_number(self, call: Call, params: Params) -> Result:
        await self._sandbox.remove(call, _number(params))
        return {}

    async def list_sms_sandbox_phone_numbers(self, call: Call, params: Params) -> Result:
        n = _page_size(params, PAGE_SIZE, "ValidationError")
        page, token = await self._sandbox.numbers(call, params.get("NextToken"), n)
        numbers = [{"PhoneNumber": each.number, "Status": _STATES[each.state]} for each in page]
        return {"PhoneNumbers": numbers, "NextToken": token}


def _number(params: Params) -> str:
    """Check the number against the service's model. Errors do not show it: a number is personal data."""
    number = required_text(params, "PhoneNumber")
    if len(number) > NUMBER_CHARS_MAX:
        raise constraint_violation(
            None, "phoneNumber", f"Member must have length less than or equal to {NUMBER_CHARS_MAX}"
        )
    if not re.fullmatch(_NUMBER, number, re.ASCII):
        raise constraint_violation(None, "phoneNumber", f"Member must satisfy regular expression pattern: {_NUMBER}")
    return number


def _page_size(params: Params, most: int, code: str) -> int:
    n: int = params.get("MaxResults", most)
    if n < 1:
        raise constraint_violation(str(n), "maxResults", "Member must have value greater than or equal to 1", code)
    if n > most:
        raise constraint_violation(str(n), "maxResults", f"Member must have value less than or equal to {most}", code)
    return n
